#include "hf/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "hf/rope.h"

namespace ashlar::hf {
namespace {

// A number that means the same there and in GGUF.
struct SameNumber {
  std::array<std::string_view, 3> theirs;
  std::string_view ours;
};
constexpr auto kCounts = std::to_array<SameNumber>({
    {{"num_hidden_layers", "n_layer"}, "block_count"},
    {{"hidden_size", "n_embd"}, "embedding_length"},
    {{"max_position_embeddings", "n_positions", "n_ctx"}, "context_length"},
    {{"num_attention_heads", "n_head"}, "attention.head_count"},
    {{"intermediate_size", "ffn_hidden_size", "n_inner"}, "feed_forward_length"},
    {{"num_local_experts", "num_experts", "n_routed_experts"}, "expert_count"},
    {{"num_experts_per_tok"}, "expert_used_count"},
    {{"moe_intermediate_size"}, "expert_feed_forward_length"},
    {{"shared_expert_intermediate_size"}, "expert_shared_feed_forward_length"},
    {{"n_shared_experts"}, "expert_shared_count"},
    {{"first_k_dense_replace"}, "leading_dense_block_count"},
    {{"kv_lora_rank"}, "attention.kv_lora_rank"},
    {{"q_lora_rank"}, "attention.q_lora_rank"},
});
constexpr auto kNumbers = std::to_array<SameNumber>({
    {{"rms_norm_eps"}, "attention.layer_norm_rms_epsilon"},
    {{"layer_norm_epsilon"}, "attention.layer_norm_epsilon"},
    {{"final_logit_softcapping"}, "final_logit_softcapping"},
    {{"attn_logit_softcapping"}, "attn_logit_softcapping"},
    {{"routed_scaling_factor"}, "expert_weights_scale"},
});

// A field that changes what a model computes, with the only value that runs; its absence is right
// too.
struct MustBe {
  std::string_view name;
  std::string_view only;  // as JSON
};
constexpr auto kMustBe = std::to_array<MustBe>({
    {"alibi", "false"},
    {"parallel_attn", "true"},
    {"num_ln_in_parallel_attn", "2"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"reorder_and_upcast_attn", "false"},
    {"use_bidirectional_attention", "false"},
    {"decoder_sparse_step", "1"},
    {"rope_interleave", "true"},
    {"moe_layer_freq", "1"},
    {"no_rope_layer_interval", "4"},
});

class ConfigReader {
 public:
  ConfigReader(const Config& config, const Family& family, Builder& builder)
      : config_(config), family_(family), builder_(builder) {}

  Status Read() {
    ASHLAR_TRY(CheckFields());
    ASHLAR_TRY(SameNumbers());
    ASHLAR_TRY(Defaults());
    ASHLAR_TRY(config_.Find("kv_lora_rank") ? Latent() : Heads());
    ASHLAR_TRY(Experts());
    ASHLAR_TRY(Windows());
    const RopeShape shape = {.head_dim = head_dim_, .rotated = rotated_, .context = context_};
    ASHLAR_TRY(ReadRope(config_, shape, builder_));
    return CheckScale();
  }

 private:
  Status CheckFields() const;
  Status SameNumbers();
  Status Defaults();
  Status Latent();
  Status Heads();
  Status Experts();
  Status Windows();
  Status CheckScale() const;
  Status CheckUnrotated() const;

  const Config& config_;
  const Family& family_;
  Builder& builder_;
  std::uint64_t layers_ = 0;
  std::uint64_t hidden_ = 0;
  std::uint64_t heads_ = 0;
  std::uint64_t head_dim_ = 0;
  std::uint64_t rotated_ = 0;
  std::uint64_t context_ = 0;
};

Status ConfigReader::CheckFields() const {
  ASHLAR_ASSIGN(const auto activation, config_.Text({"hidden_activation", "hidden_act",
                                                     "activation_function", "activation"}));
  // Early Gemma files say "gelu" and mean this one, as transformers reads them.
  const bool is_early_gemma = activation == "gelu" && family_.activation == "gelu_pytorch_tanh" &&
                              !config_.Find("hidden_activation");
  if (activation && *activation != family_.activation && !is_early_gemma) {
    return MakeError(ErrorCode::kUnsupported,
                     "'{}': the activation is '{}'; this build runs {} with {}", config_.where(),
                     *activation, family_.model_type, family_.activation);
  }
  for (const MustBe& field : kMustBe) {
    const auto value = config_.Find(field.name);
    if (value && Shown(*value) != field.only) {
      return config_.Wrong(field.name, fmt::format("this build runs {}", field.only));
    }
  }
  const auto dense = config_.Find("mlp_only_layers");
  if (dense && (!ArrayIn(*dense) || ArrayIn(*dense)->size() > 0)) {
    return config_.Wrong("mlp_only_layers", "this build runs models with experts in all layers");
  }
  return CheckUnrotated();
}

// Layers without rotation are the family's: every fourth one.
Status ConfigReader::CheckUnrotated() const {
  const auto value = config_.Find("no_rope_layers");
  if (!value) return {};
  const auto rotates = ArrayIn(*value);
  if (!rotates) return config_.Wrong("no_rope_layers", "an array is needed", ErrorCode::kCorrupt);
  std::size_t layer = 0;
  for (const Element each : *rotates) {
    ++layer;
    if (CountIn(each) != std::optional<std::uint64_t>(layer % 4 == 0 ? 0 : 1)) {
      return config_.Wrong("no_rope_layers",
                           fmt::format("entry {} is {}; this build runs models in which every "
                                       "fourth layer does not rotate",
                                       layer - 1, Shown(each)));
    }
  }
  return {};
}

Status ConfigReader::SameNumbers() {
  for (const SameNumber& same : kCounts) {
    ASHLAR_ASSIGN(const auto value,
                  config_.Count({same.theirs[0], same.theirs[1], same.theirs[2]}));
    if (value) builder_.SetOwn(same.ours, *value);
  }
  for (const SameNumber& same : kNumbers) {
    ASHLAR_ASSIGN(const auto value,
                  config_.Number({same.theirs[0], same.theirs[1], same.theirs[2]}));
    if (value) builder_.SetOwn(same.ours, *value);
  }
  return {};
}

Status ConfigReader::Defaults() {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 24;
  layers_ = builder_.OwnCount("block_count");
  hidden_ = builder_.OwnCount("embedding_length");
  heads_ = builder_.OwnCount("attention.head_count");
  for (const auto& [name, count] :
       {std::pair("num_hidden_layers", layers_), std::pair("hidden_size", hidden_),
        std::pair("num_attention_heads", heads_)}) {
    if (count == 0 || count > kMost) {
      return MakeError(ErrorCode::kCorrupt, "'{}': {} is {}; 1 to {} is needed", config_.where(),
                       name, count, kMost);
    }
  }
  if (builder_.OwnCount("feed_forward_length") == 0) {
    builder_.SetOwn("feed_forward_length", 4 * hidden_);
  }
  context_ = builder_.OwnCount("context_length");
  if (context_ == 0) {
    context_ = family_.default_context;
    if (context_ == 0) return config_.Missing("max_position_embeddings");
    builder_.SetOwn("context_length", context_);
  }
  return {};
}

Status ConfigReader::Latent() {
  std::array<std::uint64_t, 3> dims{};
  constexpr std::array<std::string_view, 3> kNames = {"qk_nope_head_dim", "qk_rope_head_dim",
                                                      "v_head_dim"};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    ASHLAR_ASSIGN(const auto value, config_.Count({kNames[i]}));
    if (!value) return config_.Missing(kNames[i]);
    if (*value > 4096) return config_.Wrong(kNames[i], "at most 4096", ErrorCode::kCorrupt);
    dims[i] = *value;
  }
  head_dim_ = dims[0] + dims[1];
  rotated_ = dims[1];
  builder_.SetOwn("attention.head_count_kv", heads_);
  builder_.SetOwn("attention.key_length", head_dim_);
  builder_.SetOwn("attention.value_length", dims[2]);
  builder_.SetOwn("rope.dimension_count", rotated_);
  return {};
}

Status ConfigReader::Heads() {
  ASHLAR_ASSIGN(const auto named, config_.Count({"head_dim"}));
  if (!named && family_.needs_head_dim) return config_.Missing("head_dim");
  head_dim_ = named.value_or(hidden_ / heads_);
  if (head_dim_ == 0 || head_dim_ > 4096) {
    return MakeError(ErrorCode::kCorrupt, "'{}': heads of {} channels", config_.where(), head_dim_);
  }
  builder_.SetOwn("attention.key_length", head_dim_);
  builder_.SetOwn("attention.value_length", head_dim_);
  ASHLAR_ASSIGN(auto kv_heads, config_.Count({"num_key_value_heads", "num_kv_heads"}));
  // Falcon: the number means something in the second architecture only.
  ASHLAR_ASSIGN(const auto is_new, config_.Flag("new_decoder_architecture"));
  ASHLAR_ASSIGN(const auto is_multi_query, config_.Flag("multi_query"));
  if (is_multi_query && !is_new.value_or(false)) kv_heads = *is_multi_query ? 1 : heads_;
  builder_.SetOwn("attention.head_count_kv", kv_heads.value_or(heads_));
  rotated_ = head_dim_;
  ASHLAR_ASSIGN(const auto part, RotatedPart(config_));
  if (part) rotated_ = static_cast<std::uint64_t>(static_cast<double>(head_dim_) * *part);
  if (family_.permutes_heads && rotated_ != head_dim_) {
    return config_.Wrong("partial_rotary_factor", "heads of this family rotate as a whole here");
  }
  builder_.SetOwn("rope.dimension_count", rotated_);
  return {};
}

Status ConfigReader::Experts() {
  if (builder_.OwnCount("expert_count") == 0) return {};
  ASHLAR_ASSIGN(const auto is_normalised, config_.Flag("norm_topk_prob"));
  if (is_normalised) builder_.SetOwn("expert_weights_norm", *is_normalised);
  // DeepSeek-V3's groups are those with the best two experts together, V2's those with the best
  // one.
  ASHLAR_ASSIGN(const auto groups, config_.Count({"n_group"}));
  ASHLAR_ASSIGN(const auto used, config_.Count({"topk_group"}));
  if (groups.value_or(1) != 1 && !family_.chooses_by_sigmoid) {
    return config_.Wrong("n_group", "this build runs 1");
  }
  if (groups) builder_.SetOwn("expert_group_count", *groups);
  if (used) builder_.SetOwn("expert_group_used_count", *used);
  ASHLAR_ASSIGN(const auto named, config_.Text({"scoring_func"}));
  if (!named && !family_.chooses_by_sigmoid) return {};
  const std::string_view scoring = named.value_or("sigmoid");
  if (scoring != "softmax" && scoring != "sigmoid") {
    return config_.Wrong("scoring_func", "this build knows softmax and sigmoid");
  }
  builder_.SetOwn("expert_gating_func", std::uint64_t{scoring == "softmax" ? 1u : 2u});
  return {};
}

Status ConfigReader::Windows() {
  ASHLAR_ASSIGN(const auto is_used, config_.Flag("use_sliding_window"));
  ASHLAR_ASSIGN(const auto window, config_.Count({"sliding_window"}));
  const bool has_window = window && *window > 0 && is_used.value_or(true);
  builder_.SetOwn("attention.sliding_window", has_window ? *window : std::uint64_t{0});
  if (!has_window) return {};
  const auto value = config_.Find("layer_types");
  const auto types = value ? ArrayIn(*value) : std::nullopt;
  std::vector<std::int64_t> slides;
  if (types) {
    for (const Element type : *types) {
      const auto name = TextIn(type);
      if (name != "full_attention" && name != "sliding_attention") {
        return config_.Wrong(
            "layer_types",
            fmt::format("{} is neither full_attention nor sliding_attention", Shown(type)));
      }
      slides.push_back(name == "sliding_attention" ? 1 : 0);
    }
  } else if (is_used) {  // Qwen2: the first layers see everything
    ASHLAR_ASSIGN(const auto full, config_.Count({"max_window_layers"}));
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(layers_, 4096); ++i) {
      slides.push_back(full && i >= *full ? 1 : 0);
    }
  } else {
    ASHLAR_ASSIGN(const auto every, config_.Count({"sliding_window_pattern"}));
    if (every) builder_.SetOwn("attention.sliding_window_pattern", *every);
    return {};
  }
  builder_.SetOwn("attention.sliding_window_pattern", gguf::Array{std::move(slides)});
  return {};
}

// GGUF has no key for the scale of attention where it is not 1 / sqrt(head_dim): the engine knows
// the two models that have another one.
Status ConfigReader::CheckScale() const {
  ASHLAR_ASSIGN(const auto scalar, config_.Number({"query_pre_attn_scalar"}));
  if (!scalar) return {};
  const bool is_wide = (family_.architecture == "gemma2" && layers_ == 46) ||
                       (family_.architecture == "gemma3" && layers_ == 62);
  const double right = is_wide ? static_cast<double>(hidden_) / static_cast<double>(heads_)
                               : static_cast<double>(head_dim_);
  if (*scalar == right) return {};
  return config_.Wrong("query_pre_attn_scalar",
                       fmt::format("this build scales by 1 / sqrt({}) here", right));
}

template <typename T>
Result<std::optional<T>> FirstOf(const Config& config, Config::Names names,
                                 std::optional<T> (*read)(const Element&), std::string_view right) {
  for (const std::string_view name : names) {
    const auto value = config.Find(name);
    if (!value) continue;
    const std::optional<T> typed = read(*value);
    if (!typed) return config.Wrong(name, right, ErrorCode::kCorrupt);
    return typed;
  }
  return std::optional<T>();
}

}  // namespace

Config::Config(const Json& json) : where_(json.name()), outer_(json.root()) {
  if (const auto inner = FieldOf(outer_, "text_config")) inner_ = ObjectIn(*inner);
}

std::optional<Element> Config::Find(std::string_view name) const {
  if (name.empty()) return std::nullopt;
  if (inner_) {
    if (const auto value = FieldOf(*inner_, name)) return value;
  }
  return FieldOf(outer_, name);
}

Result<std::optional<std::uint64_t>> Config::Count(Names names) const {
  return FirstOf<std::uint64_t>(*this, names, CountIn, "a whole number is needed");
}
Result<std::optional<double>> Config::Number(Names names) const {
  return FirstOf<double>(*this, names, NumberIn, "a number is needed");
}
Result<std::optional<bool>> Config::Flag(std::string_view name) const {
  return FirstOf<bool>(*this, {name}, FlagIn, "true or false is needed");
}
Result<std::optional<std::string_view>> Config::Text(Names names) const {
  return FirstOf<std::string_view>(*this, names, TextIn, "a text is needed");
}

Error Config::Wrong(std::string_view name, std::string_view right, ErrorCode code) const {
  const auto value = Find(name);
  return MakeError(code, "'{}': field \"{}\" is {}; {}", where_, name,
                   value ? Shown(*value) : "missing", right);
}

Error Config::Missing(std::string_view name) const {
  return MakeError(ErrorCode::kCorrupt, "'{}' has no field \"{}\", which is needed", where_, name);
}

Result<const Family*> FamilyOf(const Config& config) {
  const auto value = config.Find("model_type");
  const auto type = value ? TextIn(*value) : std::nullopt;
  if (!type) return config.Missing("model_type");
  const Family* const family = FindFamily(*type);
  if (family != nullptr) return family;
  std::vector<std::string_view> known;
  std::ranges::transform(Families(), std::back_inserter(known), &Family::model_type);
  return config.Wrong("model_type",
                      fmt::format("from safetensors this build runs {}", fmt::join(known, ", ")));
}

Status ReadConfig(const Config& config, const Family& family, Builder& builder) {
  return ConfigReader(config, family, builder).Read();
}

}  // namespace ashlar::hf
