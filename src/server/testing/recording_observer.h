// Keeps the requests that ended, in order.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/request_record.h"

namespace ashlar::server::testing {

inline constexpr auto kPatience = std::chrono::seconds(20);  // of tests that wait

class RecordingObserver final : public RequestObserver {
 public:
  struct Ended {
    std::string id;
    std::string route;
    int status = 0;
    bool client_left = false;
    std::optional<GenerationRecord> generation;
  };

  void OnRequestEnd(const RequestRecord& record, std::int64_t) override {
    const std::lock_guard lock(mutex_);
    ended_.push_back({.id = record.id,
                      .route = std::string(record.route),
                      .status = record.status,
                      .client_left = record.client_left,
                      .generation = record.generation});
    end_.notify_all();
  }
  std::vector<Ended> ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  // Requests end after their answers. False after a long time. No two may have this id.
  bool WaitForEnd(std::string_view id) {
    std::unique_lock lock(mutex_);
    return end_.wait_for(lock, kPatience, [&] {
      return std::any_of(ended_.begin(), ended_.end(),
                         [&](const Ended& request) { return request.id == id; });
    });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable end_;
  std::vector<Ended> ended_;  // protected by mutex_
};

}  // namespace ashlar::server::testing
