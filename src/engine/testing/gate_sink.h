// A sink that holds the engine's thread at every token until it is let go on: what a test does
// meanwhile is sure to be done while the request runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <mutex>
#include <string_view>

#include "engine/service.h"

namespace ashlar::engine {

class GateSink final : public EventSink {
 public:
  void OnToken(TokenId, const TokenLogprobs*) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return allowed_ > 0; });
    --allowed_;
  }
  void OnFinish(FinishReason why, const Usage&, std::string_view) override {
    finished_.set_value(why);
  }

  // Until the engine stands at its first token.
  void WaitForFirst() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void Allow(std::uint64_t tokens) {
    const std::lock_guard lock(mutex_);
    allowed_ += tokens;
    changed_.notify_all();
  }
  // Lets the engine go on token by token until there is an answer.
  template <typename T>
  T AllowUntil(std::future<T> answer) {
    while (answer.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) Allow(1);
    return answer.get();
  }
  FinishReason Wait() { return finished_.get_future().get(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t allowed_ = 0;
  std::uint64_t waiting_ = 0;
  std::promise<FinishReason> finished_;
};

}  // namespace ashlar::engine
