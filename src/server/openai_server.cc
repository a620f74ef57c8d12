#include "server/openai_server.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/rng.h"
#include "server/generation.h"
#include "server/request_parser.h"
#include "server/token_text.h"

namespace ashlar::server {
namespace {

std::int64_t SecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const Clock& SystemClock() {
  static const SteadyClock kClock;
  return kClock;
}

// A salt that no other tenant can have.
std::string SaltOf(const std::string& tenant, const std::string& salt) {
  std::string secret = tenant;
  secret += '\0';  // in no tenant's name
  secret += salt;
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// A request that the queue cannot take even when it is empty is told so by its field.
RequestLimits LimitsOf(const OpenAiServerOptions& options, std::size_t vocab_size) {
  RequestLimits limits{.vocab_size = vocab_size};
  limits.max_sequences = std::min(limits.max_sequences, options.max_waiting);
  limits.max_beam_width =
      std::min(limits.max_beam_width, static_cast<std::int64_t>(options.max_waiting));
  return limits;
}

net::HttpResponse JsonResponse(const Json& json) {
  net::HttpResponse response;
  response.body = DumpJson(json);
  return response;
}

}  // namespace

OpenAiServer::OpenAiServer(engine::Service& service, const text::Tokenizer& tokenizer,
                           ChatRenderer chat, OpenAiServerOptions options)
    : service_(service),
      tokenizer_(tokenizer),
      encoder_(tokenizer, std::move(chat), service.info().max_context),
      options_(std::move(options)),
      limits_(LimitsOf(options_,
                       std::min<std::size_t>(tokenizer.vocab_size(), service.info().vocab_size))),
      created_(SecondsSince1970()),
      system_fingerprint_(fmt::format("ashlar-{}-{}", options_.version, service.info().kv_codec)),
      random_((static_cast<std::uint64_t>(std::random_device()()) << 32) ^ std::random_device()()),
      admission_(std::make_shared<Admission>(
          options_.clock != nullptr ? *options_.clock : SystemClock(), options_.max_requests)),
      answer_memory_(std::make_shared<AnswerMemory>(options_.answers)),
      intake_(options_.intake_threads),
      long_intake_(1),
      output_(std::make_shared<WorkerPool>(options_.output_threads)) {
  ASHLAR_CHECK(!options_.model_names.empty(), "a server needs a model name");
}

OpenAiServer::~OpenAiServer() {
  intake_.Stop();
  long_intake_.Stop();
  output_->Stop();
}

net::HttpResponse OpenAiServer::FormatError(int status, std::string_view message) {
  return ErrorResponse({.status = status, .message = std::string(message)});
}

void OpenAiServer::AddRoutes(Router& router) {
  const auto get = [&](std::string_view path, Access access, auto answer) {
    router.Add({.method = "GET",
                .path = path,
                .access = access,
                .is_routine = access == Access::kAnybody,
                .handle = [answer](const net::HttpRequest&, const Reply& reply) {
                  reply.Send(answer());
                }});
  };
  const auto post = [&](std::string_view path, BodyHandler handler) {
    router.Add({.method = "POST",
                .path = path,
                .access = Access::kTenant,
                .handle = [this, handler](net::HttpRequest request, const Reply& reply) {
                  TakeIn(std::move(request), handler, reply);
                }});
  };
  post("/v1/completions", &OpenAiServer::Completions);
  post("/v1/chat/completions", &OpenAiServer::ChatCompletions);
  post("/tokenize", &OpenAiServer::Tokenize);
  post("/detokenize", &OpenAiServer::Detokenize);
  get("/v1/models", Access::kTenant, [this] { return Models(); });
  get("/health", Access::kAnybody, [this] { return Health(); });
  get("/version", Access::kAnybody,
      [this] { return JsonResponse(Json{{"version", options_.version}}); });
  Route model{.method = "GET", .path = "/v1/models/{id}", .access = Access::kTenant};
  model.handle = [this, route = model](const net::HttpRequest& request, const Reply& reply) {
    reply.Send(Model(route.RestOf(request.path)));
  };
  router.Add(std::move(model));
}

void OpenAiServer::BeginDrain(std::int64_t retry_after_s) { admission_->BeginDrain(retry_after_s); }

void OpenAiServer::TakeIn(net::HttpRequest request, BodyHandler handler, const Reply& reply) {
  auto ticket = admission_->Enter(*reply.record().caller);
  if (!ticket.ok()) {
    reply.Send(ErrorResponse(ticket.error()));
    return;
  }
  reply.record().ticket = std::move(ticket).value();
  WorkerPool& pool = request.body.size() > kLongBodyBytes ? long_intake_ : intake_;
  pool.Post([this, request = std::move(request), handler, reply] {
    HandleBody(request, handler, reply);
  });
}

void OpenAiServer::HandleBody(const net::HttpRequest& request, BodyHandler handler,
                              const Reply& reply) {
  try {
    const ApiResult<Json> body = ParseJson(request.body, options_.json);
    if (!body.ok()) {
      reply.Send(ErrorResponse(body.error()));
      return;
    }
    (this->*handler)(*body, reply);
  } catch (const std::exception& error) {
    // Nothing we know throws but memory running out. The reply, dropped, answers 500.
    ASHLAR_LOG_ERROR("server: {} {}: {}", request.method, request.path, error.what());
  }
}

// --- Plain routes ---

// 503 tells a balancer to send nobody here.
net::HttpResponse OpenAiServer::Health() const {
  if (!admission_->is_draining()) {
    return JsonResponse(Json{{"status", "ok"}});
  }
  net::HttpResponse response = JsonResponse(Json{{"status", "draining"}});
  response.status = 503;
  return response;
}

Json OpenAiServer::ModelJson(const std::string& name) const {
  return Json{{"id", name},
              {"object", "model"},
              {"created", created_},
              {"owned_by", "ashlar"},
              {"root", options_.model_names.front()},
              {"parent", nullptr},
              {"max_model_len", service_.info().max_context}};
}

net::HttpResponse OpenAiServer::Models() const {
  Json data = Json::array();
  for (const std::string& name : options_.model_names) {
    data.push_back(ModelJson(name));
  }
  return JsonResponse(Json{{"object", "list"}, {"data", std::move(data)}});
}

net::HttpResponse OpenAiServer::Model(const std::string& name) const {
  if (const auto error = CheckModel(name); error || name.empty()) {
    return ErrorResponse(error.value_or(ApiError{.status = 404, .message = "no model is named"}));
  }
  return JsonResponse(ModelJson(name));
}

// --- Requests with a body ---

std::optional<ApiError> OpenAiServer::CheckModel(const std::string& name) const {
  const auto& names = options_.model_names;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) {
    return std::nullopt;
  }
  constexpr std::size_t kMaxShownBytes = 100;
  return ApiError{.status = 404,
                  .message = fmt::format("the model '{}' does not exist; this server has {}",
                                         name.substr(0, kMaxShownBytes), fmt::join(names, ", ")),
                  .param = "model",
                  .code = "model_not_found"};
}

std::optional<ApiError> OpenAiServer::CheckLength(std::size_t prompt_tokens,
                                                  std::optional<std::uint64_t> max_tokens,
                                                  std::string_view param, bool streams) const {
  const std::uint64_t max_context = service_.info().max_context;
  if (prompt_tokens == 0) {
    return ApiError{.message = fmt::format("'{}' has no tokens; at least one is needed", param),
                    .param = std::string(param)};
  }
  if (options_.max_prompt_tokens > 0 && prompt_tokens > options_.max_prompt_tokens) {
    return ApiError{.message = fmt::format("'{}' has {} tokens; this server takes {} at the most",
                                           param, prompt_tokens, options_.max_prompt_tokens),
                    .param = std::string(param),
                    .code = "context_length_exceeded"};
  }
  if (streams) {
    return std::nullopt;
  }
  // Without max_tokens at least one token must fit.
  const std::uint64_t wanted = max_tokens.value_or(1);
  if (prompt_tokens <= max_context && wanted <= max_context - prompt_tokens) {
    return std::nullopt;
  }
  return ApiError{
      .message = fmt::format(
          "the maximum context length here is {} tokens (the model's, or what --kv-memory "
          "holds), but the request needs {}: {} of '{}' and {} of completion; shorten "
          "one of them",
          max_context, prompt_tokens + wanted, prompt_tokens, param, wanted),
      .param = std::string(param),
      .code = "context_length_exceeded"};
}

// What a generation is planned from; `prompts` lack max_tokens.
struct OpenAiServer::Plan {
  ApiKind kind;
  GenerationOptions options;
  std::vector<EncodedPrompt> prompts;
  bool echo = false;
  std::string_view param;
};

// Where the request does not say, what cannot be cut keeps to the context.
std::optional<engine::ContextStream> OpenAiServer::StreamOf(const Plan& plan) const {
  const GenerationOptions& options = plan.options;
  const bool can_be_cut =
      !options.use_beam_search && !(plan.echo && options.top_logprobs.has_value());
  if (!options.streams_context.value_or(options_.context_stream.has_value() && can_be_cut)) {
    return std::nullopt;
  }
  engine::ContextStream stream = options_.context_stream.value_or(engine::ContextStream{});
  stream.sinks = options.context_sinks.value_or(stream.sinks);
  stream.window = options.context_window.value_or(stream.window);
  return stream;
}

// A text that may be cut may have any length that the body's limit lets in.
std::optional<ApiError> OpenAiServer::CheckTextSize(const Plan& plan, std::string_view text) const {
  return StreamOf(plan).has_value() ? std::nullopt : encoder_.CheckTextSize(text, plan.param);
}

// What the engine would refuse too, but without a name.
std::optional<ApiError> OpenAiServer::CheckStream(const GenerationOptions& options,
                                                  const engine::ContextStream& stream) const {
  const std::uint64_t context = service_.info().max_context;
  const std::uint64_t window = stream.window > 0 ? stream.window : context / 2;
  if (stream.sinks < context && window < context - stream.sinks) {
    return std::nullopt;
  }
  const std::string_view name =
      options.context_window.has_value() ? "context_window" : "context_sinks";
  return ApiError{.message = fmt::format("'{}': a context of {} tokens cannot be cut to {} first "
                                         "and {} last ones; together they must be fewer",
                                         name, context, stream.sinks, window),
                  .param = std::string(name)};
}

// On whose behalf, how urgent, how long.
void OpenAiServer::TakeTerms(const GenerationOptions& options, const Reply& reply,
                             GenerationPlan& generation) const {
  const Tenant& caller = *reply.record().caller;
  generation.tenant = caller.name.empty() ? options.user : caller.name;
  generation.tenant_weight = caller.weight;
  // A key's priority is the most urgent that its requests may have.
  generation.priority = std::max(options.priority.value_or(caller.priority), caller.priority);
  if (caller.name.empty()) {
    generation.priority = options.priority.value_or(caller.priority);
  }
  double timeout_s = options.timeout_s.value_or(options_.request_timeout_s);
  if (options_.request_timeout_s > 0) {
    timeout_s = std::min(timeout_s, options_.request_timeout_s);
  }
  if (timeout_s > 0) {
    generation.deadline_ns = reply.record().started_ns + static_cast<std::int64_t>(timeout_s * 1e9);
  }
}

void OpenAiServer::StartGeneration(Plan plan, const Reply& reply) {
  std::size_t total_tokens = 0;
  const std::optional<engine::ContextStream> stream = StreamOf(plan);
  const std::uint64_t max_context = service_.info().max_context;
  if (stream.has_value()) {
    if (const auto error = CheckStream(plan.options, *stream)) {
      reply.Send(ErrorResponse(*error));
      return;
    }
  }
  for (EncodedPrompt& prompt : plan.prompts) {
    if (auto error = CheckLength(prompt.tokens.size(), plan.options.max_tokens, plan.param,
                                 stream.has_value())) {
      reply.Send(ErrorResponse(*error));
      return;
    }
    // What is left of the context; where texts may outgrow it, as much as it has.
    prompt.max_tokens = plan.options.max_tokens.value_or(
        stream.has_value() ? max_context : max_context - prompt.tokens.size());
    if (plan.options.min_tokens > prompt.max_tokens) {
      reply.Send(
          ErrorResponse({.message = fmt::format(
                             "'min_tokens' is {}, more than the {} tokens that may be generated",
                             plan.options.min_tokens, prompt.max_tokens),
                         .param = "min_tokens"}));
      return;
    }
    total_tokens += prompt.tokens.size() * plan.options.best_of;
  }
  if (total_tokens > options_.max_prompt_tokens_per_request) {
    reply.Send(
        ErrorResponse({.message = fmt::format(
                           "the prompts of all sequences have {} tokens together; at most {} are "
                           "allowed in one request",
                           total_tokens, options_.max_prompt_tokens_per_request),
                       .param = std::string(plan.param)}));
    return;
  }
  if (options_.isolates_tenants) {
    const Tenant& caller = *reply.record().caller;
    plan.options.cache_salt =
        SaltOf(caller.name.empty() ? plan.options.user : caller.name, plan.options.cache_salt);
  }
  const std::uint64_t number = requests_++;
  const std::uint64_t random_seed = RandomBits(random_, 1, number);
  GenerationPlan generation{
      .identity = {.kind = plan.kind,
                   .id = fmt::format("{}-{:016x}{:08x}",
                                     plan.kind == ApiKind::kChat ? "chatcmpl" : "cmpl",
                                     RandomBits(random_, 0, number), number),
                   .created = SecondsSince1970(),
                   .model = plan.options.model.empty() ? options_.model_names.front()
                                                       : plan.options.model,
                   .system_fingerprint = system_fingerprint_},
      .options = std::move(plan.options),
      .seed = 0,
      .echo = plan.echo,
      .prompts = std::move(plan.prompts)};
  generation.stream = stream;
  TakeTerms(generation.options, reply, generation);
  generation.seed = generation.options.seed.value_or(options_.seed.value_or(random_seed));
  std::make_shared<Generation>(Generation::Environment{.service = &service_,
                                                       .tokenizer = &tokenizer_,
                                                       .workers = output_,
                                                       .answer_memory = answer_memory_},
                               std::move(generation), reply)
      ->Start();
}

void OpenAiServer::Completions(const Json& body, const Reply& reply) {
  auto request = ParseCompletionRequest(body, limits_);
  if (!request.ok()) {
    reply.Send(ErrorResponse(request.error()));
    return;
  }
  if (const auto error = CheckModel(request->options.model)) {
    reply.Send(ErrorResponse(*error));
    return;
  }
  Plan plan{.kind = ApiKind::kCompletion,
            .options = std::move(request->options),
            .prompts = {},
            .echo = request->echo,
            .param = "prompt"};
  for (PromptInput& input : request->prompts) {
    EncodedPrompt prompt;
    if (auto* text = std::get_if<std::string>(&input)) {
      if (const auto error = CheckTextSize(plan, *text)) {
        reply.Send(ErrorResponse(*error));
        return;
      }
      prompt.tokens = encoder_.EncodeText(*text, request->add_special_tokens);
      prompt.echo_text = request->echo ? std::move(*text) : std::string();
    } else {
      prompt.tokens = std::get<std::vector<TokenId>>(std::move(input));
      prompt.echo_text =
          request->echo ? DecodeToUtf8(tokenizer_, prompt.tokens, false) : std::string();
    }
    plan.prompts.push_back(std::move(prompt));
  }
  StartGeneration(std::move(plan), reply);
}

void OpenAiServer::ChatCompletions(const Json& body, const Reply& reply) {
  auto request = ParseChatRequest(body, limits_);
  if (!request.ok()) {
    reply.Send(ErrorResponse(request.error()));
    return;
  }
  if (const auto error = CheckModel(request->options.model)) {
    reply.Send(ErrorResponse(*error));
    return;
  }
  const ApiResult<std::string> text = encoder_.RenderChat(request->chat);
  if (!text.ok()) {
    reply.Send(ErrorResponse(text.error()));
    return;
  }
  Plan plan{.kind = ApiKind::kChat,
            .options = std::move(request->options),
            .prompts = {},
            .echo = false,
            .param = "messages"};
  if (const auto error = CheckTextSize(plan, *text)) {
    reply.Send(ErrorResponse(*error));
    return;
  }
  plan.prompts.push_back({.tokens = encoder_.EncodeText(*text, request->chat.add_special_tokens),
                          .max_tokens = 0,
                          .echo_text = {}});
  StartGeneration(std::move(plan), reply);
}

void OpenAiServer::Tokenize(const Json& body, const Reply& reply) {
  auto request = ParseTokenizeRequest(body, limits_);
  if (!request.ok()) {
    reply.Send(ErrorResponse(request.error()));
    return;
  }
  if (const auto error = CheckModel(request->model)) {
    reply.Send(ErrorResponse(*error));
    return;
  }
  std::vector<TokenId> tokens;
  if (const auto* text = std::get_if<std::string>(&request->input)) {
    tokens = encoder_.EncodeText(*text, request->add_special_tokens);
  } else {
    const auto& chat = std::get<ChatPrompt>(request->input);
    const ApiResult<std::string> rendered = encoder_.RenderChat(chat);
    if (!rendered.ok()) {
      reply.Send(ErrorResponse(rendered.error()));
      return;
    }
    tokens = encoder_.EncodeText(*rendered, chat.add_special_tokens);
  }
  Json strings;
  if (request->return_token_strs) {
    strings = Json::array();
    for (const TokenId token : tokens) {
      strings.push_back(NameOfToken(tokenizer_, token, TokenNaming::kText));
    }
  }
  reply.Send(JsonResponse(Json{{"count", tokens.size()},
                               {"max_model_len", service_.info().max_context},
                               {"tokens", tokens},
                               {"token_strs", std::move(strings)}}));
}

void OpenAiServer::Detokenize(const Json& body, const Reply& reply) {
  const auto request = ParseDetokenizeRequest(body, limits_);
  if (!request.ok()) {
    reply.Send(ErrorResponse(request.error()));
    return;
  }
  if (const auto error = CheckModel(request->model)) {
    reply.Send(ErrorResponse(*error));
    return;
  }
  reply.Send(JsonResponse(Json{{"prompt", DecodeToUtf8(tokenizer_, request->tokens, true)}}));
}

}  // namespace ashlar::server
