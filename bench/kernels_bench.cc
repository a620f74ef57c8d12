// Speed of the kernels on one thread, beside the limits of this machine measured in the same run:
//
//   read limit  bytes per second that a plain loop of loads reads from memory (64 MiB)
//   fma limit   f32 operations per second of nothing but fused multiply-adds, vectors of the chosen
//   width
//
// Decode (one to three rows) reads weights or keys once and should be bound by reading: its cases
// walk through so many copies of the matrix that it comes from memory each time, as a whole model's
// weights do. Prefill should be bound by multiplying. Each case shows its ratio to both limits.
//
//   kernels_bench [--isa=avx2] [--benchmark_filter=Matmul/decode]
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../bench/kernels_bench.cc"
#include <cstddef>

#include "hwy/foreach_target.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

// f32 operations of `rounds` rounds of 12 independent fused multiply-adds. Returns their result, so
// that they are not optimised away.
float MultiplyAdd(std::size_t rounds, double* operations) {
  constexpr std::size_t kChains = 12;
  const D d;
  const V a = hn::Set(d, 0.999f);
  const V b = hn::Set(d, 0.001f);
  V sums[kChains];
  ASHLAR_UNROLL
  for (std::size_t i = 0; i < kChains; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  for (std::size_t round = 0; round < rounds; ++round) {
    ASHLAR_UNROLL
    for (std::size_t i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(sums[i], a, b);
  }
  *operations = static_cast<double>(rounds) * kChains * 2 * kLanes;
  V sum = hn::Zero(d);
  ASHLAR_UNROLL
  for (std::size_t i = 0; i < kChains; ++i) sum = hn::Add(sum, sums[i]);
  return hn::GetLane(sum);
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#if HWY_ONCE
#include <benchmark/benchmark.h>

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/testing/lane.h"
#include "kernels/testing/random_data.h"

namespace ashlar::kernels {
namespace {

using testing::AlignedFloats;
using testing::OwnedMatrix;
using testing::Random;

constexpr std::size_t kColdBytes = std::size_t{64} << 20;  // well above the level 3 caches of today

struct Limits {
  double read_bytes_per_s = 0;
  double fma_per_s = 0;
};
Limits g_limits;
const KernelSet* g_kernels = nullptr;

// The thread's own time, as Google Benchmark's rates use: other work on the machine counts less.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double MeasureReadLimit() {
  const std::vector<std::uint64_t> data(kColdBytes / sizeof(std::uint64_t), 1);
  double best = 0;
  for (int round = 0; round < 10; ++round) {
    const double start = ThreadSeconds();
    std::uint64_t sums[8] = {};
    for (std::size_t i = 0; i < data.size(); i += 8) {
      for (std::size_t j = 0; j < 8; ++j) sums[j] |= data[i + j];
    }
    for (std::uint64_t& sum : sums) benchmark::DoNotOptimize(sum);
    best = std::max(best, static_cast<double>(kColdBytes) / (ThreadSeconds() - start));
  }
  return best;
}

double MeasureFmaLimit(Isa isa) {
  float (*multiply_add)(std::size_t, double*) = nullptr;
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::kAvx2) multiply_add = N_AVX2::MultiplyAdd;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::kAvx512) multiply_add = N_AVX3::MultiplyAdd;
#endif
#if HWY_TARGETS & HWY_NEON
  if (isa == Isa::kNeon) multiply_add = N_NEON::MultiplyAdd;
#endif
  if (multiply_add == nullptr) return 0;
  double best = 0;
  for (int round = 0; round < 10; ++round) {
    const double start = ThreadSeconds();
    double operations = 0;
    benchmark::DoNotOptimize(multiply_add(std::size_t{1} << 20, &operations));
    best = std::max(best, operations / (ThreadSeconds() - start));
  }
  return best;
}

// `bytes` and `operations` of one iteration; operations count 2 per multiply-add.
void Report(benchmark::State& state, double bytes, double operations) {
  using benchmark::Counter;
  constexpr auto kRate = Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = Counter(bytes * 1e-9, kRate);
  state.counters["GFLOP/s"] = Counter(operations * 1e-9, kRate);
  state.counters["of_read"] = Counter(bytes / g_limits.read_bytes_per_s, kRate);
  if (g_limits.fma_per_s > 0) {
    state.counters["of_fma"] = Counter(operations / g_limits.fma_per_s, kRate);
  }
}

// --- Matmul ---

struct MatmulCase {
  DType dtype;
  std::size_t n;
  std::size_t k;
  std::size_t rows;
};

void BenchMatmul(benchmark::State& state, MatmulCase c) {
  Random random(1);
  // Quantised rows repeat after 64, to make large matrices quickly.
  const std::size_t distinct = std::min<std::size_t>(c.n, 64);
  const std::vector<std::byte> some = random.Rows(c.dtype, distinct, c.k);
  std::vector<std::byte> rows;
  for (std::size_t j = 0; j < c.n; j += distinct) rows.insert(rows.end(), some.begin(), some.end());
  const std::size_t bytes = PackedBytes(c.dtype, c.n, c.k);
  const std::size_t copies = c.rows > 3 ? 1 : std::max<std::size_t>(1, kColdBytes / bytes);
  std::vector<std::unique_ptr<OwnedMatrix>> matrices;
  for (std::size_t i = 0; i < copies; ++i) {
    matrices.push_back(std::make_unique<OwnedMatrix>(c.dtype, c.n, c.k, rows.data()));
  }
  const std::vector<float> x = random.Floats(c.rows * c.k);
  std::vector<float> y(c.rows * c.n);
  AlignedFloats scratch(MatmulScratchFloats(c.k));
  std::size_t next = 0;
  for (auto _ : state) {
    const PackedMatrix* w = matrices[next++ % copies]->view();
    g_kernels->matmul({.w = w,
                       .x = x.data(),
                       .rows = c.rows,
                       .x_stride = c.k,
                       .bias = nullptr,
                       .y = y.data(),
                       .y_stride = c.n,
                       .panel_begin = 0,
                       .panel_end = w->panels(),
                       .scratch = scratch.data()});
    benchmark::ClobberMemory();
  }
  Report(state, static_cast<double>(bytes), 2.0 * static_cast<double>(c.rows * c.n * c.k));
}

void RegisterMatmul() {
  for (const DTypeInfo& info : AllDTypes()) {
    const bool is_wide = info.block_elements == 256;  // k must be a multiple
    std::vector<std::pair<std::size_t, std::size_t>> shapes;
    if (is_wide) {
      shapes = {{640, 768}, {2048, 768}, {768, 2048}};
    } else {
      shapes = {{576, 576}, {192, 576}, {1536, 576}, {576, 1536}};
    }
    if (info.dtype == DType::kQ4_1 || info.dtype == DType::kQ8_0) shapes.push_back({49152, 576});
    for (const auto& [n, k] : shapes) {
      for (const std::size_t rows : {1, 2, 3, 4, 8, 128}) {
        const std::string name =
            fmt::format("Matmul/{}/{}/n:{}/k:{}/rows:{}", rows <= 3 ? "decode" : "prefill",
                        info.name, n, k, rows);
        const MatmulCase c{info.dtype, n, k, rows};
        benchmark::RegisterBenchmark(name.c_str(), BenchMatmul, c)->MinTime(0.1);
      }
    }
  }
}

// --- Attention ---
// One lane out of the caches' reach is `ashlar bench attention`; here the kernels alone, over a
// lane that stays in them.

struct AttendCase {
  KvCodecKind kind;
  std::size_t head_dim;
  std::size_t rows;
};

void BenchAttend(benchmark::State& state, AttendCase c) {
  constexpr std::size_t kKeys = 1024;
  constexpr std::size_t kBlockTokens = 32;
  testing::Lane lane({.key_kind = c.kind,
                      .value_kind = c.kind,
                      .head_dim = c.head_dim,
                      .value_dim = c.head_dim,
                      .block_tokens = kBlockTokens});
  lane.AppendRandom(*g_kernels, kKeys + 1, 2);
  Random random(3);
  const testing::Rows rows{.q = random.Floats(c.rows * c.head_dim),
                           .positions = std::vector<std::uint32_t>(c.rows, kKeys)};
  for (auto _ : state) {
    for (std::size_t s = 0; s < kKeys / kSegmentTokens; ++s) {
      benchmark::DoNotOptimize(testing::AttendSegment(*g_kernels, lane, s, rows));
    }
  }
  const std::size_t bytes = TileBytes({.kind = c.kind}, KvRole::kKey, c.head_dim, kBlockTokens) +
                            TileBytes({.kind = c.kind}, KvRole::kValue, c.head_dim, kBlockTokens);
  Report(state, static_cast<double>(bytes * kKeys / kBlockTokens),
         4.0 * static_cast<double>(c.rows * kKeys * c.head_dim));
}

void BenchEncode(benchmark::State& state, AttendCase c) {
  constexpr std::size_t kBlockTokens = 16;
  Random random(4);
  const std::vector<float> raw = random.Floats(kBlockTokens * c.head_dim);
  AlignedFloats tile(TileBytes({.kind = c.kind}, KvRole::kKey, c.head_dim, kBlockTokens) / 4);
  for (auto _ : state) {
    g_kernels->encode({.kind = c.kind,
                       .role = KvRole::kKey,
                       .raw_kind = KvCodecKind::kF32,
                       .raw = reinterpret_cast<const std::byte*>(raw.data()),
                       .dim = c.head_dim,
                       .block_tokens = kBlockTokens,
                       .tile = reinterpret_cast<std::byte*>(tile.data())});
    benchmark::ClobberMemory();
  }
  Report(state, static_cast<double>(4 * kBlockTokens * c.head_dim), 0.0);
}

void RegisterAttend() {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    for (const std::size_t head_dim : {64, 128}) {
      for (const std::size_t rows : {1, 3, 6, 48}) {
        const std::string name =
            fmt::format("Attend/{}/head_dim:{}/rows:{}", NameOf(kind), head_dim, rows);
        benchmark::RegisterBenchmark(name.c_str(), BenchAttend, AttendCase{kind, head_dim, rows})
            ->MinTime(0.1);
      }
      if (IsRaw(kind)) continue;
      const std::string name = fmt::format("Encode/{}/head_dim:{}", NameOf(kind), head_dim);
      benchmark::RegisterBenchmark(name.c_str(), BenchEncode, AttendCase{kind, head_dim, 0})
          ->MinTime(0.1);
    }
  }
}

// --- The rest ---

void RegisterElementwise() {
  const auto add = [](const char* name, double bytes, double operations, auto body) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
      std::vector<float> a(1536, 0.5f), b(1536, 0.25f), c(1536, 1.0f);
      for (auto _ : state) {
        body(a.data(), b.data(), c.data());
        benchmark::ClobberMemory();
      }
      Report(state, bytes, operations);
    })->MinTime(0.1);
  };
  add("RmsNorm/n:576", 3 * 4 * 576, 4 * 576,
      [](float* a, float* b, float* c) { g_kernels->rms_norm(a, b, 1e-5f, 576, c); });
  add("SiluMul/n:1536", 3 * 4 * 1536, 20 * 1536,
      [](float* a, float* b, float* c) { g_kernels->silu_mul(a, b, 1536, c); });
  add("RopeInterleaved/pairs:32", 6 * 4 * 32, 6 * 32,
      [](float* a, float* b, float* c) { g_kernels->rope_interleaved(a, b, c, 32); });
}

int Main(int argc, char** argv) {
  std::string isa_name = "auto";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--isa=")) continue;
    isa_name = argument.substr(6);
    std::copy(argv + i + 1, argv + argc, argv + i);
    --argc;
    break;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const Result<Isa> isa = ParseIsa(isa_name);
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.error().message.c_str());
    return 2;
  }
  g_kernels = &KernelsFor(*isa);
  g_limits = {MeasureReadLimit(), MeasureFmaLimit(*isa)};
  benchmark::AddCustomContext("isa", std::string(NameOf(*isa)));
  benchmark::AddCustomContext("read limit",
                              fmt::format("{:.1f} GB/s", g_limits.read_bytes_per_s * 1e-9));
  benchmark::AddCustomContext("fma limit",
                              fmt::format("{:.1f} GFLOP/s", g_limits.fma_per_s * 1e-9));
  RegisterMatmul();
  RegisterAttend();
  RegisterElementwise();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace ashlar::kernels

int main(int argc, char** argv) { return ashlar::kernels::Main(argc, argv); }
#endif  // HWY_ONCE
