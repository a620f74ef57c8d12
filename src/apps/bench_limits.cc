#include "apps/bench_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/rng.h"

namespace ashlar::apps {
namespace {

// Pieces are handed to whichever thread is free, so one that is held up delays a piece, no more.
constexpr std::size_t kPieceBytes = std::size_t{2} << 20;
constexpr std::size_t kPiecesPerRead = 64;
constexpr std::size_t kComputePiecesPerThread = 64;
// Some 100 us a piece with vectors.
constexpr std::size_t kFmaRounds = 20'000;
constexpr std::size_t kDotRounds = 20'000;
constexpr std::size_t kExpRounds = 50;
constexpr std::size_t kExponents = 4096;  // 16 KiB

struct LimitInfo {
  std::string_view name;
  std::string_view unit;
  std::string_view for_people;
  std::string_view unit_for_people;
};
constexpr std::array<LimitInfo, kLimits> kInfos = {{
    {"read", "gb_per_s", "read", "GB/s"},
    {"f16_fma_read", "gb_per_s", "read f16, to f32, FMA", "GB/s"},
    {"int8_read", "gb_per_s", "read 8-bit, dot product", "GB/s"},
    {"f32_fma", "gflop_per_s", "f32 FMA in registers", "GFLOP/s"},
    {"int8_dot", "gop_per_s", "8-bit dot product in registers", "GOP/s"},
    {"exp", "gexp_per_s", "exponential", "G/s"},
}};

const LimitInfo& InfoOf(Limit limit) { return kInfos[static_cast<std::size_t>(limit)]; }

bool IsRead(Limit limit) { return limit <= Limit::kInt8Read; }

std::vector<std::size_t> ThreadCounts(std::size_t most) {
  std::vector<std::size_t> counts;
  for (std::size_t threads = 1; threads < most; threads *= 2) counts.push_back(threads);
  counts.push_back(most);
  return counts;
}

void PrintForPeople(std::span<const std::pair<std::size_t, MachineLimits>> columns) {
  fmt::print("{:<42}", "");
  for (const auto& [threads, limits] : columns) {
    fmt::print("{:>12}", fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"));
  }
  fmt::print("\n");
  for (std::size_t i = 0; i < kLimits; ++i) {
    const auto limit = static_cast<Limit>(i);
    fmt::print("{:<32}{:<10}", InfoOf(limit).for_people, InfoOf(limit).unit_for_people);
    for (const auto& [threads, limits] : columns) fmt::print("{:>12.4g}", limits.Of(limit));
    fmt::print("\n");
  }
}

}  // namespace

std::string_view NameOf(Limit limit) { return InfoOf(limit).name; }
std::string_view UnitOf(Limit limit) { return InfoOf(limit).unit; }

Result<LimitMeter> LimitMeter::Create(kernels::Isa isa, ThreadPool& pool,
                                      std::uint64_t buffer_bytes) {
  if (buffer_bytes < kMinBufferBytes) {
    return MakeError(ErrorCode::kInvalidArgument, "a buffer of {} bytes; it must have {} or more",
                     buffer_bytes, kMinBufferBytes);
  }
  ASHLAR_ASSIGN(kv::Arena buffer, kv::Arena::Create(buffer_bytes / kPieceBytes * kPieceBytes));
  return LimitMeter(isa, pool, std::move(buffer));
}

LimitMeter::LimitMeter(kernels::Isa isa, ThreadPool& pool, kv::Arena buffer)
    : loops_(&kernels::LimitLoopsFor(isa)), pool_(&pool), buffer_(std::move(buffer)) {
  pool.ParallelFor(buffer_.bytes() / kPieceBytes, [&](std::size_t piece, std::size_t) {
    for (std::size_t at = piece * kPieceBytes; at < (piece + 1) * kPieceBytes; at += 8) {
      // As f16: from 0 to below 1.
      const std::uint64_t bits = RandomBits(1, 0, at) & 0x3BFF'3BFF'3BFF'3BFF;
      std::memcpy(buffer_.data() + at, &bits, sizeof bits);
    }
  });
  for (std::size_t i = 0; i < kExponents; ++i) {
    exponents_.push_back(static_cast<float>(-10.0 * RandomUnit(1, 1, i)));
  }
  results_.resize(std::max(kPiecesPerRead, kComputePiecesPerThread * pool.threads()));
}

void LimitMeter::ReadPiece(Limit limit, std::size_t piece) {
  const std::size_t pieces = buffer_.bytes() / kPieceBytes;
  const std::byte* const data = buffer_.data() + (next_piece_ + piece) % pieces * kPieceBytes;
  switch (limit) {
    case Limit::kF16FmaRead:
      results_[piece] = loops_->read_f16_fma(data, kPieceBytes, 0.5f);
      return;
    case Limit::kInt8Read:
      results_[piece] = loops_->read_int8_dot(data, kPieceBytes, 3);
      return;
    default:
      results_[piece] = loops_->read(data, kPieceBytes);
  }
}

void LimitMeter::ComputePiece(Limit limit, std::size_t piece) {
  switch (limit) {
    case Limit::kF32Fma:
      results_[piece] = loops_->fma(kFmaRounds, 0.5f, 1.0f);
      return;
    case Limit::kInt8Dot:
      results_[piece] = loops_->int8_dot(kDotRounds, 3, 5);
      return;
    default:
      for (std::size_t i = 0; i < kExpRounds; ++i) {
        results_[piece] += loops_->exp(exponents_.data(), kExponents);
      }
  }
}

double LimitMeter::ReadTurn(Limit limit) {
  const SteadyClock clock;
  const std::int64_t start = clock.NowNs();
  pool_->ParallelFor(kPiecesPerRead,
                     [&](std::size_t piece, std::size_t) { ReadPiece(limit, piece); });
  const auto ns = static_cast<double>(clock.NowNs() - start);
  next_piece_ += kPiecesPerRead;
  return static_cast<double>(kPiecesPerRead * kPieceBytes) / ns;
}

double LimitMeter::ComputeTurn(Limit limit) {
  const std::size_t pieces = kComputePiecesPerThread * pool_->threads();
  const SteadyClock clock;
  const std::int64_t start = clock.NowNs();
  pool_->ParallelFor(pieces, [&](std::size_t piece, std::size_t) { ComputePiece(limit, piece); });
  const auto ns = static_cast<double>(clock.NowNs() - start);
  const std::size_t in_piece = limit == Limit::kF32Fma    ? 2 * kFmaRounds * loops_->fma_per_round
                               : limit == Limit::kInt8Dot ? 2 * kDotRounds * loops_->dot_per_round
                                                          : kExpRounds * kExponents;
  return static_cast<double>(pieces * in_piece) / ns;
}

double LimitMeter::Turn(Limit limit) {
  return IsRead(limit) ? ReadTurn(limit) : ComputeTurn(limit);
}

double MachineLimits::Of(Limit limit) const {
  switch (limit) {
    case Limit::kRead:
      return read_gb_s;
    case Limit::kF16FmaRead:
      return f16_fma_read_gb_s;
    case Limit::kInt8Read:
      return int8_read_gb_s;
    case Limit::kF32Fma:
      return f32_fma_gflop_s;
    case Limit::kInt8Dot:
      return int8_dot_gop_s;
    case Limit::kExp:
      return exp_giga_s;
  }
  ASHLAR_CHECK(false, "limit {}", static_cast<int>(limit));
}

MachineLimits MeasureLimits(LimitMeter& meter, int turns) {
  std::array<Samples, kLimits> samples;
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < kLimits; ++i) samples[i].Add(meter.Turn(static_cast<Limit>(i)));
  }
  const auto median = [&](Limit limit) {
    return samples[static_cast<std::size_t>(limit)].Median();
  };
  return {.read_gb_s = median(Limit::kRead),
          .f16_fma_read_gb_s = median(Limit::kF16FmaRead),
          .int8_read_gb_s = median(Limit::kInt8Read),
          .f32_fma_gflop_s = median(Limit::kF32Fma),
          .int8_dot_gop_s = median(Limit::kInt8Dot),
          .exp_giga_s = median(Limit::kExp)};
}

Status RunLimitsBench(const LimitsBenchOptions& options, BenchReport& report) {
  report.Progress(fmt::format("{} on a buffer of {}, medians of {} turns ...",
                              kernels::NameOf(options.isa), FormatByteSize(options.buffer_bytes),
                              options.turns));
  std::vector<std::pair<std::size_t, MachineLimits>> columns;
  for (const std::size_t threads : ThreadCounts(options.threads)) {
    ThreadPool pool(threads);
    ASHLAR_ASSIGN(LimitMeter meter, LimitMeter::Create(options.isa, pool, options.buffer_bytes));
    const MachineLimits limits = MeasureLimits(meter, options.turns);
    columns.emplace_back(threads, limits);
    if (report.style() == BenchReport::Style::kTable) continue;
    for (std::size_t i = 0; i < kLimits; ++i) {
      const auto limit = static_cast<Limit>(i);
      report.Add({.name = std::string(NameOf(limit)),
                  .params = {{"threads", threads},
                             {"isa", kernels::NameOf(options.isa)},
                             {"buffer_bytes", meter.buffer_bytes()}},
                  .figures = {{std::string(UnitOf(limit)), limits.Of(limit)}}});
    }
  }
  if (report.style() == BenchReport::Style::kTable) PrintForPeople(columns);
  return {};
}

}  // namespace ashlar::apps
