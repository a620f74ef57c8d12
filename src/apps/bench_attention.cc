#include "apps/bench_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "apps/bench_workload.h"
#include "base/byte_size.h"

namespace ashlar::apps {
namespace {

using Prefix = AttentionRig::Prefix;

// Tokens of a batch's sequences after the prefix: a block of the usual size.
constexpr std::uint64_t kOwnTokens = 16;
// Rounds end here, be they as few as one.
constexpr std::int64_t kPatienceMs = 5000;
constexpr std::size_t kBarCells = 20;

std::string_view NameOf(AttentionCase bench_case) {
  return kAttentionCaseNames[static_cast<std::size_t>(bench_case)];
}

// What is measured next.
struct Subject {
  const AttentionGeometry& geometry;
  const CodecPair& codecs;
  AttentionCase bench_case;
  std::uint64_t context;

  bool is_prefill() const { return bench_case == AttentionCase::kPrefill; }
  bool is_batch() const { return bench_case == AttentionCase::kBatch; }
  // The f16 loop for f16: q8 and its like are meant to come near what plain loads reach.
  Limit limit() const {
    if (is_prefill()) return Limit::kF32Fma;
    const bool is_f16 =
        codecs.key.kind == KvCodecKind::kF16 && codecs.value.kind == KvCodecKind::kF16;
    return is_f16 ? Limit::kF16FmaRead : Limit::kRead;
  }
};

// Of one layer, collected over rounds.
struct Measured {
  Samples ns;
  Samples limit;
  Samples ratio;       // of speed to the limit
  Samples to_private;  // of time
  double work = 0;     // in one layer: bytes read, or FLOP in prefill
  std::uint64_t kv_bytes = 0;
};

// Of a step of the model. Speeds are in 10^9 a second: bytes, or FLOP in prefill.
struct Figures {
  double step_ms = 0;
  double tokens_per_s = 0;
  std::uint64_t kv_read_bytes = 0;
  double speed = 0;
  double limit = 0;
  double ratio = 0;
};

// 0.5 -> "##########", in eighths of a cell.
std::string Bar(double share) {
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * 8.0 * kBarCells + 0.5);
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  return bar;
}

std::string FormatContext(std::uint64_t tokens) {
  return tokens % 1024 == 0 ? fmt::format("{}k", tokens / 1024) : fmt::format("{}", tokens);
}

// 1.234 or 1234: what a column of 9 holds.
std::string FormatNumber(double value) {
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

class AttentionBench {
 public:
  AttentionBench(const AttentionBenchOptions& options, ThreadPool& pool, LimitMeter& meter,
                 BenchReport& report)
      : options_(options), pool_(pool), meter_(meter), report_(report) {}

  Status Measure(const Subject& subject);
  // An error when all was left out.
  Status Finish() const;

 private:
  AttentionRigSpec SpecOf(const Subject& subject) const;
  double StepNs(const Subject& subject, AttentionRig& rig, Prefix prefix);
  void MeasureRound(const Subject& subject, AttentionRig& rig, std::span<Measured> measured);
  void Add(const Subject& subject, const AttentionRig& rig, Prefix prefix,
           const Measured& measured);
  void PrintHeader(const Subject& subject);
  void PrintRow(const Subject& subject, const AttentionRig& rig, Prefix prefix,
                const Figures& figures);

  const AttentionBenchOptions& options_;
  ThreadPool& pool_;
  LimitMeter& meter_;
  BenchReport& report_;
  std::size_t next_layer_ = 0;
  double last_limit_ = 0;  // of the turn before this one
  std::size_t rows_ = 0;
  std::string header_;  // printed last
};

AttentionRigSpec AttentionBench::SpecOf(const Subject& subject) const {
  AttentionRigSpec spec = {.geometry = subject.geometry,
                           .codecs = subject.codecs,
                           .block_tokens = options_.block_tokens,
                           .prefix_tokens = subject.context,
                           .memory_bytes = options_.memory_bytes,
                           .isa = options_.isa};
  if (subject.is_batch()) {
    spec.sequences = kBatchSequences;
    spec.own_tokens = kOwnTokens;
  }
  if (subject.is_prefill()) {
    spec.own_tokens = kChunkTokens;
    spec.step_tokens = kChunkTokens;
  }
  return spec;
}

// ns of one layer, on the average of those that ran.
double AttentionBench::StepNs(const Subject& subject, AttentionRig& rig, Prefix prefix) {
  const std::size_t layers = subject.is_prefill() ? 1 : rig.layers();
  const double ns = TimeNs([&] {
    rig.Plan(prefix);
    for (std::size_t i = 0; i < layers; ++i) rig.Run(next_layer_++ % rig.layers());
  });
  return ns / static_cast<double>(layers);
}

Status AttentionBench::Measure(const Subject& subject) {
  Result<std::unique_ptr<AttentionRig>> made = AttentionRig::Create(SpecOf(subject), pool_);
  if (!made.ok() && made.error().code == ErrorCode::kResourceExhausted) {
    fmt::print(stderr, "left out: {} of {} at {}: {}\n", NameOf(subject.bench_case),
               subject.geometry.name, FormatContext(subject.context), made.error().message);
    return {};
  }
  ASHLAR_TRY(made);
  AttentionRig& rig = **made;
  std::vector<Measured> measured(subject.is_batch() ? 2 : 1);
  last_limit_ = meter_.Turn(subject.limit());
  const SteadyClock clock;
  const std::int64_t start = clock.NowNs();
  for (int round = -1;; ++round) {  // the first one warms up
    const std::int64_t passed_ms = (clock.NowNs() - start) / 1'000'000;
    if (round >= 1 && passed_ms > kPatienceMs) break;
    if (round >= 3 && passed_ms > options_.min_time_ms) break;
    MeasureRound(subject, rig, round < 0 ? std::span<Measured>() : measured);
  }
  for (std::size_t kind = 0; kind < measured.size(); ++kind) {
    Add(subject, rig, static_cast<Prefix>(kind), measured[kind]);
  }
  return {};
}

// In turns: the limit, a step; and for a batch the same with its prefix shared. A step is compared
// with the turns before and after it.
void AttentionBench::MeasureRound(const Subject& subject, AttentionRig& rig,
                                  std::span<Measured> measured) {
  double private_ns = 0;
  for (std::size_t kind = 0; kind < (subject.is_batch() ? 2 : 1); ++kind) {
    const auto prefix = static_cast<Prefix>(kind);
    const double ns = StepNs(subject, rig, prefix);
    const double next_limit = meter_.Turn(subject.limit());
    const double limit = (std::exchange(last_limit_, next_limit) + next_limit) / 2;
    if (prefix == Prefix::kPrivate) private_ns = ns;
    if (measured.empty()) continue;
    measured[kind].ns.Add(ns);
    measured[kind].limit.Add(limit);
    measured[kind].kv_bytes = rig.KvBytes();
    measured[kind].work = subject.is_prefill() ? rig.Flops() : static_cast<double>(rig.KvBytes());
    measured[kind].ratio.Add(measured[kind].work / ns / limit);
    measured[kind].to_private.Add(ns / private_ns);
  }
}

Status AttentionBench::Finish() const {
  if (rows_ > 0) return {};
  return MakeError(ErrorCode::kResourceExhausted, "nothing fits into --memory of {}",
                   FormatByteSize(options_.memory_bytes));
}

void AttentionBench::Add(const Subject& subject, const AttentionRig& rig, Prefix prefix,
                         const Measured& measured) {
  ++rows_;
  const AttentionRigSpec spec = SpecOf(subject);
  const double ns = measured.ns.Median();
  const double step_ms = ns * subject.geometry.layers / 1e6;
  const Figures figures = {
      .step_ms = step_ms,
      .tokens_per_s = static_cast<double>(spec.sequences * spec.step_tokens) / (step_ms / 1e3),
      .kv_read_bytes = measured.kv_bytes * subject.geometry.layers,
      .speed = measured.work / ns,
      .limit = measured.limit.Median(),
      .ratio = measured.ratio.Median()};
  if (report_.style() == BenchReport::Style::kTable) {
    return PrintRow(subject, rig, prefix, figures);
  }
  BenchRow row = {.name = std::string(NameOf(subject.bench_case)),
                  .params = {{"geometry", subject.geometry.name},
                             {"codec", apps::NameOf(subject.codecs)},
                             {"context", subject.context},
                             {"sequences", spec.sequences},
                             {"step_tokens", spec.step_tokens},
                             {"threads", options_.threads},
                             {"isa", kernels::NameOf(options_.isa)},
                             {"block_tokens", options_.block_tokens},
                             {"layers", subject.geometry.layers},
                             {"layers_held", rig.layers()},
                             {"limit", NameOf(subject.limit())}},
                  .figures = {{"step_ms", figures.step_ms}, {"tokens_per_s", figures.tokens_per_s}},
                  .ratio_to_limit = figures.ratio};
  const std::string unit(UnitOf(subject.limit()));
  row.figures[unit] = figures.speed;
  row.figures["limit_" + unit] = figures.limit;
  if (!subject.is_prefill()) {
    row.figures["kv_read_bytes"] = figures.kv_read_bytes;
    row.figures["kv_read_ratio_to_one_sequence"] =
        static_cast<double>(measured.kv_bytes) / static_cast<double>(rig.SequenceKvBytes());
  }
  if (subject.is_batch()) row.params["prefix"] = prefix == Prefix::kShared ? "shared" : "private";
  if (prefix == Prefix::kShared) {
    row.figures["time_ratio_to_private"] = measured.to_private.Median();
  }
  report_.Add(row);
}

// Above the first row of a geometry and codec.
void AttentionBench::PrintHeader(const Subject& subject) {
  std::string header =
      fmt::format("{}: {} layers; {}, blocks of {}; {}, threads: {}", subject.geometry.name,
                  subject.geometry.layers, apps::NameOf(subject.codecs), options_.block_tokens,
                  kernels::NameOf(options_.isa), options_.threads);
  if (header == header_) return;
  header_ = std::move(header);
  fmt::print("{}{}\n{:<20}{:>8}{:>10}{:>12}{:>10}{:>9}{:>9} {:<9} share\n", rows_ > 1 ? "\n" : "",
             header_, "", "context", "ms/step", "tokens/s", "KV read", "speed", "of limit", "");
}

void AttentionBench::PrintRow(const Subject& subject, const AttentionRig& rig, Prefix prefix,
                              const Figures& figures) {
  PrintHeader(subject);
  std::string name(NameOf(subject.bench_case));
  if (subject.is_batch()) name += fmt::format(" of {}", kBatchSequences);
  if (subject.is_prefill()) name += fmt::format(" of {}", kChunkTokens);
  if (prefix == Prefix::kShared) name += ", shared";
  const std::string read = subject.is_prefill() ? "" : FormatByteSize(figures.kv_read_bytes);
  std::string note;
  if (rig.layers() < subject.geometry.layers) {
    note = fmt::format("  ({} of {} layers ran)", rig.layers(), subject.geometry.layers);
  }
  fmt::print("{:<20}{:>8}{:>10}{:>12}{:>10}{:>9}{:>9} {:<8}{:>4.0f} % {}{}\n", name,
             FormatContext(subject.context), FormatNumber(figures.step_ms),
             FormatNumber(figures.tokens_per_s), read, FormatNumber(figures.speed),
             FormatNumber(figures.limit), subject.is_prefill() ? "GFLOP/s" : "GB/s",
             100 * figures.ratio, Bar(figures.ratio), note);
  std::fflush(stdout);
}

}  // namespace

Status RunAttentionBench(const AttentionBenchOptions& options, BenchReport& report) {
  for (const CodecPair& codecs : options.codecs) {
    ASHLAR_TRY(AttentionRig::Check(codecs, options.block_tokens));
  }
  ThreadPool pool(options.threads);
  ASHLAR_ASSIGN(LimitMeter meter,
                LimitMeter::Create(options.isa, pool, options.limit_buffer_bytes));
  AttentionBench bench(options, pool, meter, report);
  for (const AttentionGeometry& geometry : options.geometries) {
    for (const CodecPair& codecs : options.codecs) {
      for (const AttentionCase bench_case : options.cases) {
        for (const std::uint64_t context : options.contexts) {
          ASHLAR_TRY(bench.Measure({.geometry = geometry,
                                    .codecs = codecs,
                                    .bench_case = bench_case,
                                    .context = context}));
        }
      }
    }
  }
  return bench.Finish();
}

}  // namespace ashlar::apps
