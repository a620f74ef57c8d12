#include "model/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <variant>

#include "kernels/attention.h"
#include "model/family.h"

namespace ashlar::model {
namespace {

constexpr std::uint64_t kMaxWidth = 1u << 22;  // of a feed-forward network
constexpr std::uint32_t kMaxGroupHeads = 128;  // what attention takes at once

// Reads "<architecture>.<key>".
class Keys {
 public:
  Keys(const gguf::ModelFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string Name(std::string_view key) const { return prefix_ + std::string(key); }
  bool Has(std::string_view key) const { return file_.Find(Name(key)) != nullptr; }

  // A count from `low` to `high`.
  Result<std::uint32_t> Count(std::string_view key, std::uint64_t low, std::uint64_t high,
                              std::optional<std::uint64_t> fallback = std::nullopt) const {
    std::uint64_t value = 0;
    if (fallback && !Has(key)) {
      value = *fallback;
    } else {
      ASHLAR_ASSIGN(value, file_.Unsigned(Name(key)));
    }
    if (value < low || value > high) {
      return MakeError(ErrorCode::kCorrupt, "{} is {}; expected {} to {}", Name(key), value, low,
                       high);
    }
    return static_cast<std::uint32_t>(value);
  }

  // A finite number > 0.
  Result<double> Positive(std::string_view key, double fallback) const {
    ASHLAR_ASSIGN(const double value, file_.NumberOr(Name(key), fallback));
    if (!std::isfinite(value) || value <= 0) {
      return MakeError(ErrorCode::kCorrupt, "{} is {}; expected a positive number", Name(key),
                       value);
    }
    return value;
  }

  // A finite number >= 0.
  Result<double> NotNegative(std::string_view key, double fallback) const {
    ASHLAR_ASSIGN(const double value, file_.NumberOr(Name(key), fallback));
    if (!std::isfinite(value) || value < 0) {
      return MakeError(ErrorCode::kCorrupt, "{} is {}; expected 0 or a positive number", Name(key),
                       value);
    }
    return value;
  }

  Result<bool> Flag(std::string_view key, bool fallback) const {
    return file_.BoolOr(Name(key), fallback);
  }

 private:
  const gguf::ModelFile& file_;
  std::string prefix_;
};

Result<RopeScaling> ReadRopeScaling(const gguf::ModelFile& file, const Keys& keys,
                                    const Family& family) {
  RopeScaling scaling;
  scaling.is_rounded = family.rounds_yarn;
  const bool old_linear = keys.Has("rope.scale_linear");  // older converters
  const bool is_linear = old_linear || keys.Has("rope.scaling.factor");
  ASHLAR_ASSIGN(const std::string_view type,
                file.StringOr(keys.Name("rope.scaling.type"), is_linear ? "linear" : "none"));
  ASHLAR_ASSIGN(scaling.magnitude, keys.Positive("rope.scaling.attn_factor", 1.0));
  ASHLAR_ASSIGN(scaling.original_context,
                keys.NotNegative("rope.scaling.original_context_length", 0));
  // "longrope" is in the divisors of its tensors (weights.h) and in the factor above.
  if (type == "none" || type == "longrope") return scaling;
  ASHLAR_ASSIGN(scaling.factor,
                keys.Positive(old_linear ? "rope.scale_linear" : "rope.scaling.factor", 1.0));
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
    return scaling;
  }
  if (type != "yarn") {
    return MakeError(ErrorCode::kUnsupported,
                     "{} is '{}'; this build knows none, linear, yarn and longrope",
                     keys.Name("rope.scaling.type"), type);
  }
  scaling.kind = RopeScaling::Kind::kYarn;
  if (scaling.original_context == 0) {
    return MakeError(ErrorCode::kCorrupt, "{} is missing; YaRN scaling needs it",
                     keys.Name("rope.scaling.original_context_length"));
  }
  ASHLAR_ASSIGN(scaling.beta_fast, keys.Positive("rope.scaling.yarn_beta_fast", 32.0));
  ASHLAR_ASSIGN(scaling.beta_slow, keys.Positive("rope.scaling.yarn_beta_slow", 1.0));
  // With this key the model's stretch of logits is in the scale of attention instead.
  if (!keys.Has("rope.scaling.yarn_log_multiplier")) {
    if (family.has_latent) {
      return MakeError(ErrorCode::kUnsupported,
                       "{} is missing: what YaRN does to this architecture's logits is not known",
                       keys.Name("rope.scaling.yarn_log_multiplier"));
    }
    scaling.magnitude *= 1.0 + 0.1 * std::log(scaling.factor);
  }
  return scaling;
}

// kv heads: one number, or an array with one number per layer, all the same.
Result<std::uint32_t> ReadKvHeads(const gguf::ModelFile& file, const Keys& keys,
                                  std::uint32_t heads) {
  const gguf::Value* const value = file.Find(keys.Name("attention.head_count_kv"));
  if (value == nullptr || !std::holds_alternative<gguf::Array>(*value)) {
    return keys.Count("attention.head_count_kv", 1, heads, heads);
  }
  ASHLAR_ASSIGN(const auto per_layer, file.Integers(keys.Name("attention.head_count_kv")));
  if (per_layer.empty() || per_layer[0] < 1 || per_layer[0] > heads ||
      std::any_of(per_layer.begin(), per_layer.end(), [&](auto n) { return n != per_layer[0]; })) {
    return MakeError(
        ErrorCode::kUnsupported,
        "{} differs between layers; this build runs models with the same number in all",
        keys.Name("attention.head_count_kv"));
  }
  return static_cast<std::uint32_t>(per_layer[0]);
}

// The window's layers: an array of booleans or a period in the file, or the family's rule.
Status ReadWindows(const gguf::ModelFile& file, const Keys& keys, const Family& family,
                   ModelConfig& config) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  ASHLAR_ASSIGN(const std::uint32_t window,
                keys.Count("attention.sliding_window", 0, 1u << 30, family.default_window));
  if (window == 0) return {};
  std::uint64_t full_every = family.full_every;
  std::span<const std::int64_t> slides;
  if (const gguf::Value* const value = file.Find(keys.Name(kPattern)); value != nullptr) {
    if (std::holds_alternative<gguf::Array>(*value)) {
      ASHLAR_ASSIGN(slides, file.Integers(keys.Name(kPattern)));
      if (slides.size() < config.layers) {
        return MakeError(ErrorCode::kCorrupt, "{} has {} entries for {} layers",
                         keys.Name(kPattern), slides.size(), config.layers);
      }
    } else {
      ASHLAR_ASSIGN(full_every, keys.Count(kPattern, 0, 1024));
    }
  }
  ASHLAR_ASSIGN(const double base, keys.Positive("rope.freq_base_swa", family.window_rope_base > 0
                                                                           ? family.window_rope_base
                                                                           : config.ropes[0].base));
  const bool has_own_rope = family.window_rope_base > 0 || base != config.ropes[0].base;
  if (has_own_rope) {
    RopeSpec rope = config.ropes[0];
    rope.base = base;
    if (family.window_rope_base > 0) rope.scaling = {};
    config.ropes.push_back(rope);
  }
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const bool is_full =
        slides.empty() ? full_every > 0 && (i + 1) % full_every == 0 : slides[i] == 0;
    if (is_full) continue;
    config.layer[i].window = window;
    if (has_own_rope) config.layer[i].rope = 1;
  }
  return {};
}

Result<ExpertsConfig> ReadExperts(const Keys& keys, const Family& family, std::uint32_t count,
                                  std::uint32_t dense_width) {
  ExpertsConfig experts;
  experts.count = count;
  ASHLAR_ASSIGN(experts.used, keys.Count("expert_used_count", 1, count));
  // Mixtral's files name one width for all.
  ASHLAR_ASSIGN(experts.feed_forward,
                keys.Count(keys.Has("expert_feed_forward_length") ? "expert_feed_forward_length"
                                                                  : "feed_forward_length",
                           1, kMaxWidth));
  ASHLAR_ASSIGN(const std::uint32_t shared, keys.Count("expert_shared_count", 0, 1024, 0));
  const std::uint64_t shared_width =
      family.has_shared_gate ? dense_width : std::uint64_t{shared} * experts.feed_forward;
  ASHLAR_ASSIGN(experts.shared,
                keys.Count("expert_shared_feed_forward_length", 0, kMaxWidth, shared_width));
  experts.has_shared_gate = family.has_shared_gate;
  experts.gating = family.gating;
  // 0: as the family has it, 1: softmax, 2: sigmoid, 3: softmax of those used.
  ASHLAR_ASSIGN(const std::uint32_t gating, keys.Count("expert_gating_func", 0, 3, 0));
  if (gating > 0) experts.gating = static_cast<ExpertsConfig::Gating>(gating - 1);
  ASHLAR_ASSIGN(experts.is_normalised, keys.Flag("expert_weights_norm", family.normalises_experts));
  ASHLAR_ASSIGN(const double scale, keys.NotNegative("expert_weights_scale", 1.0));
  experts.scale = scale == 0.0 ? 1.0f : static_cast<float>(scale);
  ASHLAR_ASSIGN(experts.groups, keys.Count("expert_group_count", 0, count, 1));
  experts.groups = std::max(experts.groups, 1u);
  ASHLAR_ASSIGN(experts.used_groups, keys.Count("expert_group_used_count", 0, experts.groups, 1));
  experts.used_groups = std::max(experts.used_groups, 1u);
  if (count % experts.groups != 0 || experts.used > count / experts.groups * experts.used_groups ||
      (experts.groups > 1 && count / experts.groups < 2)) {
    return MakeError(ErrorCode::kCorrupt,
                     "{} experts in {} groups, of which {} are used, for {} experts a token", count,
                     experts.groups, experts.used_groups, experts.used);
  }
  return experts;
}

// What is cached is one row for all heads: the latent, then the rotated key.
Status ReadLatent(const Keys& keys, ModelConfig& config) {
  LatentConfig latent;
  ASHLAR_ASSIGN(latent.rank, keys.Count("attention.kv_lora_rank", 8, 4096));
  ASHLAR_ASSIGN(latent.query_rank, keys.Count("attention.q_lora_rank", 0, 1u << 16, 0));
  ASHLAR_ASSIGN(config.rope_dims, keys.Count("rope.dimension_count", 2, 512));
  // Files of before the cache held latents give these as the head's sizes.
  const bool is_new = keys.Has("attention.key_length_mla");
  ASHLAR_ASSIGN(const std::uint32_t key_dim,
                keys.Count(is_new ? "attention.key_length_mla" : "attention.key_length", 1, 4096));
  ASHLAR_ASSIGN(
      latent.value_dim,
      keys.Count(is_new ? "attention.value_length_mla" : "attention.value_length", 1, 4096));
  if (key_dim <= config.rope_dims) {
    return MakeError(ErrorCode::kCorrupt, "keys of {} channels, of which {} rotate", key_dim,
                     config.rope_dims);
  }
  latent.plain_dim = key_dim - config.rope_dims;
  if (latent.rank % 8 != 0) {
    return MakeError(ErrorCode::kUnsupported, "a latent of {} channels; expected a multiple of 8",
                     latent.rank);
  }
  config.kv_heads = 1;
  config.head_dim = latent.rank + config.rope_dims;
  ASHLAR_ASSIGN(const double log_multiplier,
                keys.NotNegative("rope.scaling.yarn_log_multiplier", 0.0));
  const double stretch = 1.0 + log_multiplier * std::log(config.ropes[0].scaling.factor);
  config.attention_scale =
      static_cast<float>(stretch * stretch / std::sqrt(static_cast<double>(key_dim)));
  config.latent = latent;
  return {};
}

// Keys and values of one size for each kv head.
Status ReadHeads(const gguf::ModelFile& file, const Keys& keys, ModelConfig& config) {
  ASHLAR_ASSIGN(config.kv_heads, ReadKvHeads(file, keys, config.heads));
  ASHLAR_ASSIGN(config.head_dim,
                keys.Count("attention.key_length", 1, 512, config.hidden / config.heads));
  ASHLAR_ASSIGN(config.rope_dims, keys.Count("rope.dimension_count", 2, 512, config.head_dim));
  if (config.heads % config.kv_heads != 0) {
    return MakeError(ErrorCode::kCorrupt, "{} query heads are not a multiple of {} kv heads",
                     config.heads, config.kv_heads);
  }
  ASHLAR_ASSIGN(const std::uint64_t value_length,
                file.UnsignedOr(keys.Name("attention.value_length"), config.head_dim));
  if (value_length != config.head_dim) {
    return MakeError(ErrorCode::kUnsupported, "{} is {} but keys have {}; they must be equal",
                     keys.Name("attention.value_length"), value_length, config.head_dim);
  }
  return {};
}

Status CheckHeads(const ModelConfig& config, const Keys& keys) {
  if (config.head_dim % 8 != 0) {
    return MakeError(ErrorCode::kUnsupported, "head size {} is not a multiple of 8",
                     config.head_dim);
  }
  if (config.head_dim > kernels::kMaxHeadDim) {
    return MakeError(ErrorCode::kUnsupported, "head size {}; this build knows up to {}",
                     config.head_dim, kernels::kMaxHeadDim);
  }
  if (config.group() > kMaxGroupHeads) {
    return MakeError(ErrorCode::kUnsupported, "{} query heads for a kv head; at most {}",
                     config.group(), kMaxGroupHeads);
  }
  if (config.rope_dims % 2 != 0 || config.rope_dims > config.head_dim) {
    return MakeError(ErrorCode::kCorrupt,
                     "{} is {}; expected an even number up to the head size {}",
                     keys.Name("rope.dimension_count"), config.rope_dims, config.head_dim);
  }
  return {};
}

Status ReadNumbers(const Keys& keys, const Family& family, ModelConfig& config) {
  ASHLAR_ASSIGN(config.layers, keys.Count("block_count", 1, 1024));
  ASHLAR_ASSIGN(config.hidden, keys.Count("embedding_length", 1, 1u << 20));
  ASHLAR_ASSIGN(config.feed_forward, keys.Count("feed_forward_length", 1, kMaxWidth));
  ASHLAR_ASSIGN(config.heads, keys.Count("attention.head_count", 1, 1024));
  ASHLAR_ASSIGN(config.context, keys.Count("context_length", 1, 1u << 30));
  ASHLAR_ASSIGN(const double epsilon,
                keys.Positive(family.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                            : "attention.layer_norm_epsilon",
                              1e-5));
  config.norm_epsilon = static_cast<float>(epsilon);
  ASHLAR_ASSIGN(const double cap,
                keys.NotNegative("attn_logit_softcapping", family.attention_softcap));
  config.attention_softcap = static_cast<float>(cap);
  ASHLAR_ASSIGN(const double final_cap,
                keys.NotNegative("final_logit_softcapping", family.logit_softcap));
  config.logit_softcap = static_cast<float>(final_cap);
  return {};
}

void TakeFrom(const Family& family, ModelConfig& config) {
  config.architecture = family.architecture;
  config.rope_pairs = family.rope_pairs;
  config.norm = family.norm;
  config.activation = family.activation;
  config.is_gated = family.is_gated;
  config.has_qk_norm = family.has_qk_norm;
  config.has_post_norms = family.has_post_norms;
  config.is_parallel = family.is_parallel;
  config.has_positions = family.has_positions;
  config.has_sink_logits = family.has_sink_logits;
}

Status ReadLayers(const gguf::ModelFile& file, const Keys& keys, const Family& family,
                  ModelConfig& config) {
  config.layer.resize(config.layers);
  ASHLAR_TRY(ReadWindows(file, keys, family, config));
  ASHLAR_ASSIGN(const std::uint32_t experts, keys.Count("expert_count", 0, 1u << 14, 0));
  std::uint32_t first_with_experts = config.layers;
  if (experts > 0) {
    ASHLAR_ASSIGN(config.experts, ReadExperts(keys, family, experts, config.feed_forward));
    ASHLAR_ASSIGN(first_with_experts, keys.Count("leading_dense_block_count", 0, config.layers, 0));
  }
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    LayerConfig& layer = config.layer[i];
    layer.has_experts = i >= first_with_experts;
    if (family.unrotated_every > 0 && (i + 1) % family.unrotated_every == 0) layer.rope.reset();
  }
  return {};
}

}  // namespace

std::vector<std::string> SupportedArchitectures() {
  std::vector<std::string> names;
  names.reserve(Families().size());
  for (const Family& family : Families()) names.emplace_back(family.architecture);
  return names;
}

Result<ModelConfig> ModelConfig::Read(const gguf::ModelFile& file) {
  ASHLAR_ASSIGN(const std::string_view architecture, file.String("general.architecture"));
  const Family* const family = FindFamily(architecture);
  if (family == nullptr) {
    return MakeError(ErrorCode::kUnsupported,
                     "architecture '{}' is not supported; this build runs {}", architecture,
                     fmt::join(SupportedArchitectures(), ", "));
  }
  ModelConfig config;
  TakeFrom(*family, config);
  ASHLAR_ASSIGN(const std::string_view name, file.StringOr("general.name", ""));
  config.name = name;

  const Keys keys(file, architecture);
  ASHLAR_TRY(ReadNumbers(keys, *family, config));
  ASHLAR_ASSIGN(config.ropes[0].base, keys.Positive("rope.freq_base", 10000.0));
  ASHLAR_ASSIGN(config.ropes[0].scaling, ReadRopeScaling(file, keys, *family));
  if (family->has_latent) {
    ASHLAR_TRY(ReadLatent(keys, config));
  } else {
    ASHLAR_TRY(ReadHeads(file, keys, config));
  }
  ASHLAR_TRY(CheckHeads(config, keys));
  if (family->scales_embedding)
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  if (family->wide_scale_layers == config.layers) {
    config.attention_scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden) / static_cast<float>(config.heads));
  }
  ASHLAR_TRY(ReadLayers(file, keys, *family, config));

  const gguf::Tensor* const embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2) {
    return MakeError(ErrorCode::kCorrupt, "the model has no matrix token_embd.weight");
  }
  if (embedding->dims[1] > (1u << 26)) {
    return MakeError(ErrorCode::kCorrupt, "token_embd.weight has {} rows", embedding->dims[1]);
  }
  config.vocab = static_cast<std::uint32_t>(embedding->dims[1]);
  config.has_column_orders = std::ranges::any_of(
      file.tensors(), [](const gguf::Tensor& tensor) { return !tensor.column_order.empty(); });
  return config;
}

}  // namespace ashlar::model
