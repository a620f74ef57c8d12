// `ashlar bench limits`: what this machine can do at best (kernels/limits.h has the loops), on some
// of its threads. Other benchmarks measure the same in turns with what they time, and state shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "apps/bench_report.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/limits.h"
#include "kv/arena.h"

namespace ashlar::apps {

enum class Limit : std::uint8_t {
  kRead,        // plain loads
  kF16FmaRead,  // f16 read, converted to f32, one fused multiply-add each
  kInt8Read,    // bytes read, one 8-bit multiply-add each
  kF32Fma,      // in registers
  kInt8Dot,     // in registers
  kExp,         // the kernels' own, from the level 1 cache
};
inline constexpr std::size_t kLimits = 6;

// "read", ...; "gb_per_s", "gflop_per_s", ...: a limit is in 10^9 of its unit a second.
std::string_view NameOf(Limit limit);
std::string_view UnitOf(Limit limit);

// Measures one turn at a time. One owner thread: the pool's.
class LimitMeter {
 public:
  // Reads come from a buffer of so many bytes, on huge pages where possible: it should be many
  // times the last cache. Errors: kInvalidArgument below kMinBufferBytes, kResourceExhausted.
  static Result<LimitMeter> Create(kernels::Isa isa, ThreadPool& pool, std::uint64_t buffer_bytes);
  static constexpr std::uint64_t kMinBufferBytes = std::uint64_t{4} << 20;
  static constexpr std::uint64_t kBufferBytes = std::uint64_t{512} << 20;  // what is usual

  // One turn: some milliseconds on all threads of the pool. Reads walk through the buffer from turn
  // to turn, and so also empty the caches of what was there before.
  double Turn(Limit limit);

  std::uint64_t buffer_bytes() const { return buffer_.bytes(); }
  std::size_t threads() const { return pool_->threads(); }
  kernels::Isa isa() const { return loops_->isa; }

 private:
  LimitMeter(kernels::Isa isa, ThreadPool& pool, kv::Arena buffer);
  void ReadPiece(Limit limit, std::size_t piece);
  void ComputePiece(Limit limit, std::size_t piece);
  double ReadTurn(Limit limit);
  double ComputeTurn(Limit limit);

  const kernels::LimitLoops* loops_;
  ThreadPool* pool_;
  kv::Arena buffer_;
  std::size_t next_piece_ = 0;  // of the buffer
  std::vector<float> exponents_;
  std::vector<double> results_;  // [pieces of a turn]
};

// Medians over turns.
struct MachineLimits {
  double read_gb_s = 0;
  double f16_fma_read_gb_s = 0;
  double int8_read_gb_s = 0;
  double f32_fma_gflop_s = 0;
  double int8_dot_gop_s = 0;
  double exp_giga_s = 0;

  double Of(Limit limit) const;
};
// The limits take turns, so that other work on the machine meets them all. Precondition: turns > 0.
MachineLimits MeasureLimits(LimitMeter& meter, int turns);

struct LimitsBenchOptions {
  kernels::Isa isa = kernels::Isa::kReference;
  std::size_t threads = 1;  // measured on 1, 2, 4, ... and this many
  std::uint64_t buffer_bytes = LimitMeter::kBufferBytes;
  int turns = 15;
};
Status RunLimitsBench(const LimitsBenchOptions& options, BenchReport& report);

}  // namespace ashlar::apps
