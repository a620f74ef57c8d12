// Says which conversation begins when. Pure: time comes in as a number.
//
//   closed loop  `concurrency` conversations at a time; one begins when one ends
//   open loop    each begins at its arrival, whatever the server does. When `concurrency` is
//   reached,
//                those behind wait, and their wait counts: the intended start stays the arrival, so
//                a slow server cannot hide its latency by slowing the load (coordinated omission)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ashlar::load {

struct PacerOptions {
  std::size_t conversations = 0;          // in all
  std::size_t concurrency = 1;            // at a time, at least 1
  std::vector<std::int64_t> arrivals_ns;  // open loop: one for each, ascending; closed: empty
  std::optional<std::int64_t> end_ns;     // none begins at or after this time
};

class Pacer {
 public:
  explicit Pacer(PacerOptions options);

  struct Start {
    std::size_t conversation = 0;
    std::int64_t intended_ns = 0;
  };
  // What is to begin now, if anything; ask until it is nothing. O(1).
  std::optional<Start> Begin(std::int64_t now_ns);
  // One conversation has ended.
  void End();
  // Nothing more begins.
  void Stop() { is_stopped_ = true; }

  // When Begin is to be asked again; nothing: not before the next End.
  std::optional<std::int64_t> NextNs() const;
  bool is_done() const { return running_ == 0 && !has_more(); }
  std::size_t running() const { return running_; }

 private:
  bool has_more() const { return !is_stopped_ && next_ < options_.conversations; }

  const PacerOptions options_;
  std::size_t next_ = 0;
  std::size_t running_ = 0;
  bool is_stopped_ = false;
};

// Arrivals of a Poisson process: independent exponential gaps, drawn by (seed, index).
// Precondition: rate_per_s > 0.
std::vector<std::int64_t> PoissonArrivals(double rate_per_s, std::size_t count, std::uint64_t seed);
// Evenly spaced, from 0.
std::vector<std::int64_t> EvenArrivals(double rate_per_s, std::size_t count);

}  // namespace ashlar::load
