// `ashlar bench matmul`: how near products with packed weights come to what the machine can do,
// which is measured in the same run, in turns with them.
//
//   decode    a few rows times a matrix many times the last cache: its bytes a second, of plain
//   reads prefill   kPrefillRows rows times a matrix: operations a second, of the 8-bit products
//   that
//             registers can do, or of f32 multiply-adds where activations or weights are f32
//
// All matrices hold the same numbers, and rows of x too: they change no time. Encoding x is timed
// with the products, as a step of a model has both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/bench_limits.h"
#include "apps/bench_report.h"
#include "base/dtype.h"
#include "base/result.h"
#include "model/activations.h"

namespace ashlar::apps {

inline constexpr std::size_t kPrefillRows = 512;
inline constexpr std::size_t kBenchColumns = 2048;  // a multiple of every format's block

struct MatmulBenchOptions {
  std::vector<DType> dtypes;
  std::vector<std::size_t> rows;  // 1 to kPrefillRows
  model::Activations activations = model::Activations::kInt8;
  std::size_t threads = 1;
  kernels::Isa isa = kernels::Isa::kReference;
  std::uint64_t weight_bytes = std::uint64_t{256} << 20;  // of a decode matrix
  std::uint64_t limit_buffer_bytes = LimitMeter::kBufferBytes;
  std::int64_t min_time_ms = 300;  // of each figure
};

Status RunMatmulBench(const MatmulBenchOptions& options, BenchReport& report);

}  // namespace ashlar::apps
