// The OpenAI-compatible API over an engine: routes for a Router.
//
//   POST /v1/completions, /v1/chat/completions   GET /v1/models, /v1/models/{id}
//   POST /tokenize, /detokenize                  GET /health, /version
//
// Handlers return at once: requests with a body are parsed and tokenised on the intake threads,
// answers are detokenised and formatted on the output threads. The engine's thread only fills
// queues.
//
// Order of destruction: stop the net::HttpServer, then destroy this, then the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/service.h"
#include "net/http_server.h"
#include "server/admission.h"
#include "server/answer_writer.h"
#include "server/api_error.h"
#include "server/json.h"
#include "server/prompt_encoder.h"
#include "server/reply.h"
#include "server/request.h"
#include "server/router.h"
#include "server/worker_pool.h"
#include "text/tokenizer.h"

namespace ashlar::server {

// To tokenise a text of megabytes takes seconds: requests longer than this wait for each other, and
// hold up no short one.
inline constexpr std::size_t kLongBodyBytes = 256 * 1024;

struct OpenAiServerOptions {
  std::vector<std::string>
      model_names;                    // at least one; answers carry the one asked for, or the first
  std::string version;                // of /version
  std::optional<std::uint64_t> seed;  // of requests without one; else random
  std::size_t intake_threads = 2;     // of requests up to kLongBodyBytes; one more for longer ones
  std::size_t output_threads = 1;
  std::size_t max_requests = 4096;                        // inside at once, see Admission
  std::size_t max_waiting = 1024;                         // sequences the engine queues
  std::uint64_t max_prompt_tokens = 0;                    // of one prompt; 0: the context's
  std::size_t max_prompt_tokens_per_request = 16u << 20;  // summed over all sequences
  AnswerLimits answers = {};
  // Prefixes are shared by requests of one tenant only, whatever salt they give.
  bool isolates_tenants = false;
  // What becomes of texts that outgrow the context, unless their request says; unset: refused.
  std::optional<engine::ContextStream> context_stream = {};
  double request_timeout_s = 0;  // of requests that give none, and at the most; 0: none
  const Clock* clock = nullptr;  // must outlive every request; null: the system's
  JsonLimits json = {};
};

struct GenerationPlan;

class OpenAiServer {
 public:
  // `service` and `tokenizer` must outlive the server. `chat`: null when the model has no chat
  // template.
  OpenAiServer(engine::Service& service, const text::Tokenizer& tokenizer, ChatRenderer chat,
               OpenAiServerOptions options);
  ~OpenAiServer();
  OpenAiServer(const OpenAiServer&) = delete;
  OpenAiServer& operator=(const OpenAiServer&) = delete;

  // The router must not call them once this is gone.
  void AddRoutes(Router& router);

  // From now on no request with a body is taken, and /health says so.
  void BeginDrain(std::int64_t retry_after_s);
  // With a body, and not over.
  std::size_t requests() const { return admission_->requests(); }

  // For net::HttpServerOptions::format_error.
  static net::HttpResponse FormatError(int status, std::string_view message);

 private:
  using BodyHandler = void (OpenAiServer::*)(const Json& body, const Reply& reply);

  // Parses the body and calls the handler, on an intake thread.
  void TakeIn(net::HttpRequest request, BodyHandler handler, const Reply& reply);
  void HandleBody(const net::HttpRequest& request, BodyHandler handler, const Reply& reply);

  net::HttpResponse Health() const;
  net::HttpResponse Models() const;
  net::HttpResponse Model(const std::string& name) const;

  void Completions(const Json& body, const Reply& reply);
  void ChatCompletions(const Json& body, const Reply& reply);
  void Tokenize(const Json& body, const Reply& reply);
  void Detokenize(const Json& body, const Reply& reply);

  Json ModelJson(const std::string& name) const;
  std::optional<ApiError> CheckModel(const std::string& name) const;
  std::optional<ApiError> CheckLength(std::size_t prompt_tokens,
                                      std::optional<std::uint64_t> max_tokens,
                                      std::string_view param, bool streams) const;
  void TakeTerms(const GenerationOptions& options, const Reply& reply,
                 GenerationPlan& generation) const;

  struct Plan;
  std::optional<engine::ContextStream> StreamOf(const Plan& plan) const;
  std::optional<ApiError> CheckTextSize(const Plan& plan, std::string_view text) const;
  std::optional<ApiError> CheckStream(const GenerationOptions& options,
                                      const engine::ContextStream& stream) const;
  void StartGeneration(Plan plan, const Reply& reply);

  engine::Service& service_;
  const text::Tokenizer& tokenizer_;
  const PromptEncoder encoder_;
  const OpenAiServerOptions options_;
  const RequestLimits limits_;
  const std::int64_t created_;  // when this server started: the models' age
  const std::string system_fingerprint_;
  const std::uint64_t random_;  // where ids and seeds come from
  std::atomic<std::uint64_t> requests_{0};
  const std::shared_ptr<Admission> admission_;
  const std::shared_ptr<AnswerMemory> answer_memory_;
  WorkerPool intake_;
  WorkerPool long_intake_;
  const std::shared_ptr<WorkerPool> output_;  // shared with generations that outlive this
};

}  // namespace ashlar::server
