// Time as a parameter: production code asks a Clock, tests and the simulator turn one by hand.
#pragma once

#include <chrono>
#include <cstdint>

namespace ashlar {

// Monotonic time in nanoseconds from an origin of the clock's own.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t NowNs() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Stands still until told to move.
class ManualClock final : public Clock {
 public:
  std::int64_t NowNs() const override { return now_ns_; }
  void AdvanceNs(std::int64_t delta_ns) { now_ns_ += delta_ns; }

 private:
  std::int64_t now_ns_ = 0;
};

}  // namespace ashlar
