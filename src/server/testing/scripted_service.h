// An engine that generates by script: every token is a function of (prompt, seed, index). It moves
// only when told to, one token per request and step, so that tests decide what happens between two
// tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/service.h"

namespace ashlar::server::testing {

using Script = std::function<TokenId(std::span<const TokenId> prompt, std::uint64_t seed,
                                     std::uint64_t index)>;

// The tokens in order, then the last one again and again.
Script FixedScript(std::vector<TokenId> tokens);

// The logprob of a token, made up, the same everywhere: 'a' is the likeliest, then 'b', ...
float ScriptedLogprob(TokenId token);

class ScriptedService final : public engine::Service {
 public:
  ScriptedService(Script script, engine::ServiceInfo info);

  const engine::ServiceInfo& info() const override { return info_; }
  engine::ServiceStats stats() const override;
  Result<std::vector<RequestId>> SubmitAll(std::vector<engine::Submission> submissions) override;
  void Cancel(RequestId id) override;

  // One token for every live request, in order of arrival; those cancelled finish. False when none
  // is left.
  bool Step();
  void StepAll() {
    while (Step()) {
    }
  }

  // The next submits fail.
  void FailSubmits(Error error);
  // Live requests finish with this error at the next step.
  void FailRunning(std::string message);

  std::size_t live() const;
  std::size_t cancel_calls() const;
  std::vector<engine::GenerationRequest> requests() const;  // all that were accepted

 private:
  struct Live {
    const RequestId id;
    const engine::GenerationRequest request;
    const std::shared_ptr<engine::EventSink> sink;
    std::atomic<bool> is_cancelled{false};
    std::uint64_t generated = 0;  // of the stepping thread
  };

  // True when the request has finished.
  bool StepOne(Live& live, const std::string& running_error);

  const Script script_;
  const engine::ServiceInfo info_;
  mutable std::mutex mutex_;  // protects all below
  std::vector<std::shared_ptr<Live>> live_;
  std::vector<engine::GenerationRequest> requests_;
  std::uint64_t next_id_ = 1;
  std::size_t cancel_calls_ = 0;
  std::optional<Error> submit_error_;

  std::string running_error_;
};

// Steps a service on a thread of its own until destroyed.
class EngineThread {
 public:
  // `pause_us`: between steps. An idle service is looked at as often.
  EngineThread(ScriptedService& service, std::int64_t pause_us);
  ~EngineThread();

 private:
  std::jthread thread_;
};

// The info of a service over ByteTokenizer.
engine::ServiceInfo ScriptedInfo(std::uint64_t max_context = 1024);

}  // namespace ashlar::server::testing
