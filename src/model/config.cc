#include "model/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

namespace ashlar::model {
namespace {

struct Family {
  std::string_view architecture;
  RopePairs rope_pairs;
};

constexpr std::array<Family, 2> kFamilies = {{
    {"llama", RopePairs::kInterleaved},
    {"qwen2", RopePairs::kHalfSplit},
}};

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

 private:
  const gguf::ModelFile& file_;
  std::string prefix_;
};

Result<RopeScaling> ReadRopeScaling(const gguf::ModelFile& file, const Keys& keys) {
  RopeScaling scaling;
  const bool old_linear = keys.Has("rope.scale_linear");  // older converters
  ASHLAR_ASSIGN(const std::string_view type,
                file.StringOr(keys.Name("rope.scaling.type"), old_linear ? "linear" : "none"));
  if (type == "none") return scaling;
  ASHLAR_ASSIGN(scaling.factor,
                keys.Positive(old_linear ? "rope.scale_linear" : "rope.scaling.factor", 1.0));
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
    return scaling;
  }
  if (type != "yarn") {
    return MakeError(ErrorCode::kUnsupported, "{} is '{}'; this build knows none, linear and yarn",
                     keys.Name("rope.scaling.type"), type);
  }
  scaling.kind = RopeScaling::Kind::kYarn;
  if (!keys.Has("rope.scaling.original_context_length")) {
    return MakeError(ErrorCode::kCorrupt, "{} is missing; YaRN scaling needs it",
                     keys.Name("rope.scaling.original_context_length"));
  }
  ASHLAR_ASSIGN(scaling.original_context,
                keys.Positive("rope.scaling.original_context_length", -1));
  ASHLAR_ASSIGN(scaling.attention_factor, keys.Positive("rope.scaling.attn_factor", 1.0));
  ASHLAR_ASSIGN(scaling.beta_fast, keys.Positive("rope.scaling.yarn_beta_fast", 32.0));
  ASHLAR_ASSIGN(scaling.beta_slow, keys.Positive("rope.scaling.yarn_beta_slow", 1.0));
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

Status CheckFeatures(const ModelConfig& config, const Keys& keys, const gguf::ModelFile& file) {
  ASHLAR_ASSIGN(const std::uint64_t experts, file.UnsignedOr(keys.Name("expert_count"), 0));
  if (experts > 0) {
    return MakeError(ErrorCode::kUnsupported,
                     "{} is {}: mixture-of-experts models are not supported yet",
                     keys.Name("expert_count"), experts);
  }
  if (config.heads % config.kv_heads != 0) {
    return MakeError(ErrorCode::kCorrupt, "{} query heads are not a multiple of {} kv heads",
                     config.heads, config.kv_heads);
  }
  if (config.head_dim % 8 != 0) {
    return MakeError(ErrorCode::kUnsupported, "head size {} is not a multiple of 8",
                     config.head_dim);
  }
  if (config.rope_dims % 2 != 0 || config.rope_dims > config.head_dim) {
    return MakeError(ErrorCode::kCorrupt,
                     "{} is {}; expected an even number up to the head size {}",
                     keys.Name("rope.dimension_count"), config.rope_dims, config.head_dim);
  }
  ASHLAR_ASSIGN(const std::uint64_t value_length,
                file.UnsignedOr(keys.Name("attention.value_length"), config.head_dim));
  if (value_length != config.head_dim) {
    return MakeError(ErrorCode::kUnsupported, "{} is {} but keys have {}; they must be equal",
                     keys.Name("attention.value_length"), value_length, config.head_dim);
  }
  return {};
}

}  // namespace

std::vector<std::string> SupportedArchitectures() {
  std::vector<std::string> names;
  names.reserve(kFamilies.size());
  for (const Family& family : kFamilies) names.emplace_back(family.architecture);
  return names;
}

Result<ModelConfig> ModelConfig::Read(const gguf::ModelFile& file) {
  ModelConfig config;
  ASHLAR_ASSIGN(const std::string_view architecture, file.String("general.architecture"));
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                   [&](const Family& f) { return f.architecture == architecture; });
  if (family == kFamilies.end()) {
    return MakeError(ErrorCode::kUnsupported,
                     "architecture '{}' is not supported; this build runs {}", architecture,
                     fmt::join(SupportedArchitectures(), ", "));
  }
  config.architecture = architecture;
  config.rope_pairs = family->rope_pairs;
  ASHLAR_ASSIGN(const std::string_view name, file.StringOr("general.name", ""));
  config.name = name;

  const Keys keys(file, architecture);
  ASHLAR_ASSIGN(config.layers, keys.Count("block_count", 1, 1024));
  ASHLAR_ASSIGN(config.hidden, keys.Count("embedding_length", 1, 1u << 20));
  ASHLAR_ASSIGN(config.feed_forward, keys.Count("feed_forward_length", 1, 1u << 22));
  ASHLAR_ASSIGN(config.heads, keys.Count("attention.head_count", 1, 1024));
  ASHLAR_ASSIGN(config.kv_heads, ReadKvHeads(file, keys, config.heads));
  ASHLAR_ASSIGN(config.head_dim,
                keys.Count("attention.key_length", 1, 512, config.hidden / config.heads));
  ASHLAR_ASSIGN(config.context, keys.Count("context_length", 1, 1u << 30));
  ASHLAR_ASSIGN(const double epsilon, keys.Positive("attention.layer_norm_rms_epsilon", 1e-5));
  config.norm_epsilon = static_cast<float>(epsilon);
  ASHLAR_ASSIGN(config.rope_base, keys.Positive("rope.freq_base", 10000.0));
  ASHLAR_ASSIGN(config.rope_dims, keys.Count("rope.dimension_count", 2, 512, config.head_dim));
  ASHLAR_ASSIGN(config.rope_scaling, ReadRopeScaling(file, keys));

  const gguf::Tensor* const embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2) {
    return MakeError(ErrorCode::kCorrupt, "the model has no matrix token_embd.weight");
  }
  if (embedding->dims[1] > (1u << 26)) {
    return MakeError(ErrorCode::kCorrupt, "token_embd.weight has {} rows", embedding->dims[1]);
  }
  config.vocab = static_cast<std::uint32_t>(embedding->dims[1]);
  ASHLAR_TRY(CheckFeatures(config, keys, file));
  return config;
}

}  // namespace ashlar::model
