#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/byte_size.h"
#include "model/workspace.h"
#include "plan/weights.h"

namespace ashlar::plan {
namespace {

// Beside the presets: what a cache in full precision would take.
constexpr std::string_view kFullPrecision = "f32";
constexpr std::uint64_t kMaxStepTokens = std::uint64_t{1} << 20;

// A description of the model as the engine would have one, as far as the sizes of its buffers
// depend on it.
model::ModelConfig ConfigOf(const Geometry& g) {
  model::ModelConfig config;
  config.layers = static_cast<std::uint32_t>(g.layers.size());
  config.hidden = g.hidden;
  config.feed_forward = g.feed_forward;
  config.heads = g.heads;
  config.head_dim = g.head_dim;
  config.rope_dims = g.head_dim;
  config.vocab = g.vocab;
  config.is_gated = g.architecture.is_gated;
  config.kv_heads = 1;
  for (const model::LayerKv& layer : g.layers) {
    config.kv_heads = std::max(config.kv_heads, layer.kv_heads);
  }
  if (g.latent) {
    config.head_dim = g.latent->kv_rank + g.latent->rope_dim;
    config.rope_dims = g.latent->rope_dim;
    config.latent = {.query_rank = g.latent->query_rank,
                     .rank = g.latent->kv_rank,
                     .plain_dim = g.latent->plain_dim,
                     .value_dim = g.latent->value_dim};
  }
  if (g.experts) {
    config.experts = {.count = g.experts->count,
                      .used = std::max(g.experts->active, std::uint32_t{1}),
                      .feed_forward = g.experts->width,
                      .shared = static_cast<std::uint32_t>(g.experts->shared_width)};
  }
  return config;
}

class Planner {
 public:
  Planner(Subject subject, PlanOptions options) {
    plan_.subject = std::move(subject);
    plan_.options = std::move(options);
  }

  Result<Plan> Make() {
    ASHLAR_TRY(CheckOptions());
    FillContexts();
    ASHLAR_TRY(AddWeights());
    ASHLAR_ASSIGN(const kv::KvLayout layout, LayoutOf(geometry(), options().codec, block_tokens()));
    ASHLAR_TRY(AddMemory(layout));
    ASHLAR_ASSIGN(plan_.chosen, RowOf(options().codec));
    plan_.arena_for_bytes = ArenaFor(layout, options().workload);
    plan_.rules = RulesOfThumb(geometry(), plan_.chosen.need, options().workload);
    ASHLAR_TRY(AddCodecs());
    return std::move(plan_);
  }

 private:
  const Geometry& geometry() const { return plan_.subject.geometry; }
  const PlanOptions& options() const { return plan_.options; }
  std::uint32_t block_tokens() const { return plan_.options.block_tokens; }

  Status CheckOptions();
  void FillContexts();
  Status AddWeights();
  Status AddMemory(const kv::KvLayout& layout);
  Result<CodecRow> RowOf(const model::KvCodecSpec& codec) const;
  Status AddCodecs();

  Plan plan_;
};

Status Planner::CheckOptions() {
  Workload& workload = plan_.options.workload;
  if (workload.context == 0) workload.context = geometry().context;
  if (workload.context == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "it is not known for how many tokens '{}' was trained; give --context",
                     geometry().name);
  }
  ASHLAR_TRY(Validate(workload));
  if (options().max_step_tokens == 0 || options().max_step_tokens > kMaxStepTokens) {
    return MakeError(ErrorCode::kInvalidArgument, "steps of {} tokens; it must be 1 to {}",
                     options().max_step_tokens, kMaxStepTokens);
  }
  for (const auto& bytes : {options().memory_bytes, options().arena_bytes}) {
    if (bytes && (*bytes == 0 || *bytes > kMaxKvBytes)) {
      return MakeError(ErrorCode::kInvalidArgument, "a memory of {} bytes; it must be 1 to {}",
                       *bytes, kMaxKvBytes);
    }
  }
  if (options().memory_bytes && options().margin_bytes >= *options().memory_bytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a margin of {} bytes leaves nothing of a memory of {}",
                     options().margin_bytes, *options().memory_bytes);
  }
  return {};
}

void Planner::FillContexts() {
  const std::uint64_t limit = std::max(geometry().context, options().workload.context);
  for (std::uint64_t context = 1024; context < limit; context *= 2) {
    plan_.contexts.push_back(context);
  }
  plan_.contexts.push_back(limit);
}

Status Planner::AddWeights() {
  const std::vector<Weight> weights = WeightsOf(geometry());
  const std::optional<FileWeights>& file = plan_.subject.file_weights;
  plan_.parameters = file ? file->parameters : ParametersOf(weights);
  plan_.are_parameters_exact = file || geometry().architecture.is_known;
  std::string_view chosen;
  if (!options().weight_format.empty()) {
    ASHLAR_ASSIGN(chosen, ParseWeightFormat(options().weight_format));
  } else if (!file) {
    chosen = geometry().weight_format;
  }
  if (file) {
    plan_.weights.push_back({.format = fmt::format("this file, {}", file->format),
                             .bytes = file->stored_bytes,
                             .is_estimate = false,
                             .is_chosen = chosen.empty()});
  }
  for (const std::string_view format : WeightFormats()) {
    if (format == "MXFP4" && !geometry().experts && format != chosen) continue;  // of experts only
    const bool is_plain = format == "F32" || format == "F16" || format == "BF16";
    plan_.weights.push_back({.format = std::string(format),
                             .bytes = BytesOf(weights, geometry(), format),
                             .is_estimate = !is_plain || !geometry().architecture.is_known,
                             .is_chosen = format == chosen});
  }
  plan_.weights_bytes = std::ranges::find(plan_.weights, true, &WeightRow::is_chosen)->bytes;
  plan_.loaded_bytes = file && chosen.empty() ? file->loaded_bytes : plan_.weights_bytes;
  return {};
}

Status Planner::AddMemory(const kv::KvLayout& layout) {
  const model::ModelConfig config =
      plan_.subject.config ? *plan_.subject.config : ConfigOf(geometry());
  plan_.workspace_bytes = model::ForwardSizes::Of(config, layout, options().max_step_tokens,
                                                  options().threads, model::Activations::kInt8)
                              .bytes();
  if (options().arena_bytes) plan_.arena_bytes = options().arena_bytes;
  if (!options().memory_bytes) return {};
  plan_.budget = BudgetOf(layout, {.memory_bytes = *options().memory_bytes,
                                   .margin_bytes = options().margin_bytes,
                                   .weights_bytes = plan_.loaded_bytes,
                                   .workspace_bytes = plan_.workspace_bytes});
  plan_.arena_bytes = plan_.budget->arena_bytes;
  return {};
}

Result<CodecRow> Planner::RowOf(const model::KvCodecSpec& codec) const {
  ASHLAR_ASSIGN(const kv::KvLayout layout, LayoutOf(geometry(), codec, block_tokens()));
  CodecRow row = {.name = codec.name};
  ASHLAR_ASSIGN(row.need, KvNeedOf(layout, options().workload));
  std::uint64_t block_bytes = 0;
  for (const GroupNeed& group : row.need.groups) block_bytes += group.block_bytes;
  row.bits_per_element = 8.0 * static_cast<double>(block_bytes) /
                         static_cast<double>(row.need.elements_per_token * block_tokens());
  const std::uint64_t limit = plan_.contexts.back();
  Workload workload = options().workload;
  for (const std::uint64_t context : plan_.contexts) {
    workload.context = context;
    const Result<KvNeed> need = KvNeedOf(layout, workload);
    // A longer context than asked for may be more than anything has: the curve ends.
    if (!need.ok()) break;
    row.curve.push_back(need->total_bytes);
  }
  if (!plan_.arena_bytes) return row;
  row.sequences = SequencesThatFit(layout, *plan_.arena_bytes, options().workload);
  row.context = ContextThatFits(layout, *plan_.arena_bytes, options().workload, limit);
  for (const std::uint64_t context : plan_.contexts) {
    workload.context = context;
    row.frontier.push_back(SequencesThatFit(layout, *plan_.arena_bytes, workload));
  }
  return row;
}

Status Planner::AddCodecs() {
  const auto add = [&](std::string_view text, std::string_view spec) -> Status {
    ASHLAR_ASSIGN(const model::KvCodecSpec codec, model::ParseKvCodecSpec(text));
    ASHLAR_ASSIGN(CodecRow row, RowOf(codec));
    row.spec = spec;
    plan_.codecs.push_back(std::move(row));
    return {};
  };
  ASHLAR_TRY(add(kFullPrecision, ""));
  for (const model::KvCodecPreset& preset : model::KvCodecPresets()) {
    ASHLAR_TRY(add(preset.name, preset.spec));
  }
  // The one that was asked for, unless it is there by another name.
  const std::string& name = options().codec.name;
  const bool is_there =
      name == "f16" || std::ranges::find(plan_.codecs, name, &CodecRow::name) != plan_.codecs.end();
  if (!is_there) plan_.codecs.push_back(plan_.chosen);
  return {};
}

}  // namespace

Result<Plan> MakePlan(Subject subject, PlanOptions options) {
  return Planner(std::move(subject), std::move(options)).Make();
}

}  // namespace ashlar::plan
