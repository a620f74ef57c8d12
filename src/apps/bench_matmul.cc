#include "apps/bench_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/aligned_array.h"
#include "base/thread_pool.h"
#include "kernels/block_format.h"
#include "kernels/kernel_set.h"

namespace ashlar::apps {
namespace {

constexpr std::size_t kItemPanels = 8;  // handed to a thread at a time
constexpr std::size_t kPrefillOutputs = 2048;
// Every byte of a file's row: scales, levels and floats are then small numbers in any format.
constexpr std::byte kStoredByte{0x22};

class MatmulBench {
 public:
  MatmulBench(const MatmulBenchOptions& options, LimitMeter meter, ThreadPool& pool,
              BenchReport& report)
      : options_(options),
        kernels_(kernels::KernelsFor(options.isa)),
        meter_(std::move(meter)),
        pool_(pool),
        report_(report),
        scratch_floats_(kernels::MatmulScratchFloats(kBenchColumns)),
        scratch_(scratch_floats_ * pool.threads()),
        x_(kPrefillRows * kBenchColumns),
        codes_(kernels::ActivationBlocks(kPrefillRows, kBenchColumns)) {
    std::fill_n(x_.data(), x_.size(), 0.5f);
  }

  void Run(DType dtype, std::size_t rows);

 private:
  bool HasCodes(DType dtype) const {
    return options_.activations == model::Activations::kInt8 && kernels::IsQuantised(dtype);
  }
  void Pack(DType dtype, std::size_t outputs);
  void Multiply(std::size_t rows);

  const MatmulBenchOptions& options_;
  const kernels::KernelSet& kernels_;
  LimitMeter meter_;
  ThreadPool& pool_;
  BenchReport& report_;
  std::size_t scratch_floats_;  // of one thread
  AlignedArray<float> scratch_;
  AlignedArray<float> x_;  // [kPrefillRows, kBenchColumns]
  AlignedArray<kernels::ActivationBlock> codes_;
  AlignedArray<float> y_;
  AlignedArray<std::byte> packed_;
  kernels::PackedMatrix w_;
};

void MatmulBench::Pack(DType dtype, std::size_t outputs) {
  if (w_.data != nullptr && w_.dtype == dtype && w_.n == outputs) return;
  const std::vector<std::byte> stored(kernels::kPanelRows * *RowBytes(dtype, kBenchColumns),
                                      kStoredByte);
  const std::size_t panel_bytes = kernels::PackedPanelBytes(dtype, kBenchColumns);
  packed_ = {};
  packed_ = AlignedArray<std::byte>(kernels::PackedBytes(dtype, outputs, kBenchColumns));
  w_ = {.dtype = dtype, .n = outputs, .k = kBenchColumns, .data = packed_.data()};
  pool_.ParallelFor(w_.panels(), [&](std::size_t panel, std::size_t) {
    kernels::PackPanels({.dtype = dtype,
                         .n = kernels::kPanelRows,
                         .k = kBenchColumns,
                         .rows = stored.data(),
                         .packed = packed_.data() + panel * panel_bytes,
                         .panel_begin = 0,
                         .panel_end = 1});
  });
}

void MatmulBench::Multiply(std::size_t rows) {
  if (HasCodes(w_.dtype)) {
    pool_.ParallelFor(rows, [&](std::size_t row, std::size_t) {
      const auto place = kernels::PlaceOfActivations(rows, kBenchColumns, row);
      kernels_.encode_activations({.x = x_.data() + row * kBenchColumns,
                                   .k = kBenchColumns,
                                   .out = codes_.data() + place.first,
                                   .stride = place.stride});
    });
  }
  const std::size_t items = (w_.panels() + kItemPanels - 1) / kItemPanels;
  pool_.ParallelFor(items, [&](std::size_t item, std::size_t worker) {
    const std::size_t begin = item * kItemPanels;
    const std::size_t end = std::min(w_.panels(), begin + kItemPanels);
    if (HasCodes(w_.dtype)) {
      kernels_.matmul_codes({.w = &w_,
                             .x = codes_.data(),
                             .rows = rows,
                             .bias = nullptr,
                             .y = y_.data(),
                             .y_stride = w_.n,
                             .panel_begin = begin,
                             .panel_end = end});
      return;
    }
    kernels_.matmul({.w = &w_,
                     .x = x_.data(),
                     .rows = rows,
                     .x_stride = kBenchColumns,
                     .bias = nullptr,
                     .y = y_.data(),
                     .y_stride = w_.n,
                     .panel_begin = begin,
                     .panel_end = end,
                     .scratch = scratch_.data() + worker * scratch_floats_});
  });
}

void MatmulBench::Run(DType dtype, std::size_t rows) {
  const bool is_prefill = rows == kPrefillRows;
  const std::size_t panel_bytes = kernels::PackedPanelBytes(dtype, kBenchColumns);
  const std::size_t panels = std::max<std::size_t>(1, options_.weight_bytes / panel_bytes);
  Pack(dtype, is_prefill ? kPrefillOutputs : panels * kernels::kPanelRows);
  y_ = {};
  y_ = AlignedArray<float>(rows * w_.n);
  const Limit limit = !is_prefill       ? Limit::kRead
                      : HasCodes(dtype) ? Limit::kInt8Dot
                                        : Limit::kF32Fma;
  const auto bytes = static_cast<double>(w_.panels() * panel_bytes);
  const double operations = 2.0 * static_cast<double>(rows * w_.n * w_.k);
  const SteadyClock clock;
  Samples ns, limits, ratios;
  double last = meter_.Turn(limit);
  RepeatFor(options_.min_time_ms, [&](bool is_warm) {
    const std::int64_t start = clock.NowNs();
    Multiply(rows);
    const auto passed = static_cast<double>(clock.NowNs() - start);
    const double next = meter_.Turn(limit);
    const double around = (std::exchange(last, next) + next) / 2;
    if (!is_warm) return;
    ns.Add(passed);
    limits.Add(around);
    ratios.Add((is_prefill ? operations : bytes) / passed / around);
  });
  report_.Add({.name = is_prefill ? "prefill" : "decode",
               .params = {{"dtype", NameOf(dtype)},
                          {"rows", rows},
                          {"activations", HasCodes(dtype) ? "int8" : "f32"},
                          {"threads", pool_.threads()},
                          {"isa", kernels::NameOf(options_.isa)},
                          {"limit", NameOf(limit)}},
               .figures = {{"gb_per_s", bytes / ns.Median()},
                           {"gop_per_s", operations / ns.Median()},
                           {"limit_" + std::string(UnitOf(limit)), limits.Median()}},
               .ratio_to_limit = ratios.Median()});
}

}  // namespace

Status RunMatmulBench(const MatmulBenchOptions& options, BenchReport& report) {
  ThreadPool pool(options.threads);
  ASHLAR_ASSIGN(LimitMeter meter,
                LimitMeter::Create(options.isa, pool, options.limit_buffer_bytes));
  report.Progress(fmt::format("{}, {} threads, activations {} ...", kernels::NameOf(options.isa),
                              options.threads, model::NameOf(options.activations)));
  MatmulBench bench(options, std::move(meter), pool, report);
  for (const DType dtype : options.dtypes) {
    for (const std::size_t rows : options.rows) bench.Run(dtype, rows);
  }
  return {};
}

}  // namespace ashlar::apps
