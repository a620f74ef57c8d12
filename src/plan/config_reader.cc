#include "plan/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/byte_size.h"

namespace ashlar::plan {
namespace {

template <std::size_t kCount>
using NameArray = std::array<std::string_view, kCount>;

// The Hub's usual name first, then its others, then GGUF's and the registry's.
constexpr NameArray<3> kModelType = {"model_type", "general.architecture", "arch"};
constexpr NameArray<6> kLayers = {"num_hidden_layers", "n_layer",     "n_layers",
                                  "num_layers",        "block_count", "num_decoder_layers"};
constexpr NameArray<6> kHidden = {"hidden_size", "n_embd",           "d_model",
                                  "dim",         "embedding_length", "hidden"};
constexpr NameArray<5> kHeads = {"num_attention_heads", "n_head", "n_heads", "attention.head_count",
                                 "n_q_heads"};
constexpr NameArray<5> kKvHeads = {"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                   "attention.head_count_kv", "n_kv_heads"};
constexpr NameArray<3> kHeadDim = {"head_dim", "attention.key_length", "attention_head_dim"};
constexpr NameArray<2> kValueDim = {"v_head_dim", "attention.value_length"};
constexpr NameArray<6> kFeedForward = {
    "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "feed_forward_length", "ffn"};
constexpr NameArray<3> kVocab = {"vocab_size", "n_vocab", "vocab"};
constexpr NameArray<8> kContext = {"max_position_embeddings", "n_positions", "n_ctx",
                                   "max_sequence_length",     "max_seq_len", "seq_length",
                                   "context_length",          "max_ctx"};
constexpr NameArray<2> kTied = {"tie_word_embeddings", "tie_embeddings"};
constexpr NameArray<2> kDtype = {"torch_dtype", "dtype"};

constexpr NameArray<2> kWindow = {"sliding_window", "attention.sliding_window"};
constexpr NameArray<1> kUseWindow = {"use_sliding_window"};
constexpr NameArray<1> kFullLayersFirst = {"max_window_layers"};
constexpr NameArray<2> kWindowPattern = {"sliding_window_pattern",
                                         "attention.sliding_window_pattern"};
constexpr NameArray<2> kChunk = {"attention_chunk_size", "attention.chunk_size"};
constexpr NameArray<2> kLayerTypes = {"layer_types", "layers_block_type"};
constexpr NameArray<2> kSharedLayers = {"num_kv_shared_layers", "attention.shared_kv_layers"};
constexpr NameArray<1> kAttentionPeriod = {"attn_layer_period"};
constexpr NameArray<1> kAttentionOffset = {"attn_layer_offset"};
constexpr NameArray<1> kFullInterval = {"full_attention_interval"};

constexpr NameArray<1> kMultiQuery = {"multi_query"};
constexpr NameArray<1> kNewDecoder = {"new_decoder_architecture"};

constexpr NameArray<2> kKvRank = {"kv_lora_rank", "attention.kv_lora_rank"};
constexpr NameArray<2> kQueryRank = {"q_lora_rank", "attention.q_lora_rank"};
constexpr NameArray<2> kRopeHeadDim = {"qk_rope_head_dim", "rope.dimension_count"};
constexpr NameArray<1> kPlainHeadDim = {"qk_nope_head_dim"};

constexpr NameArray<6> kExperts = {"num_local_experts", "num_experts",  "n_routed_experts",
                                   "moe_num_experts",   "expert_count", "n_experts"};
constexpr NameArray<5> kActiveExperts = {"num_experts_per_tok", "num_experts_per_token", "moe_topk",
                                         "expert_used_count", "experts_per_token"};
constexpr NameArray<3> kExpertWidth = {"moe_intermediate_size", "expert_feed_forward_length",
                                       "moe_ffn"};
constexpr NameArray<3> kSharedExperts = {"n_shared_experts", "expert_shared_count", "n_shared"};
constexpr NameArray<2> kSharedWidth = {"shared_expert_intermediate_size",
                                       "expert_shared_feed_forward_length"};
constexpr NameArray<3> kDenseLayers = {"first_k_dense_replace", "leading_dense_block_count",
                                       "first_dense_layers"};
constexpr NameArray<2> kExpertStep = {"decoder_sparse_step", "interleave_moe_layer_step"};

constexpr NameArray<1> kAttentionBias = {"attention_bias"};
constexpr NameArray<1> kMlpBias = {"mlp_bias"};

enum class LayerKind : std::uint8_t { kFull, kSliding, kChunked, kNone };

struct KindName {
  std::string_view name;
  LayerKind kind;
};
// Of layer_types; "hybrid": attention beside something else in one layer.
constexpr std::array<KindName, 14> kKindNames = {{{"full_attention", LayerKind::kFull},
                                                  {"attention", LayerKind::kFull},
                                                  {"global", LayerKind::kFull},
                                                  {"hybrid", LayerKind::kFull},
                                                  {"sliding_attention", LayerKind::kSliding},
                                                  {"local", LayerKind::kSliding},
                                                  {"chunked_attention", LayerKind::kChunked},
                                                  {"linear_attention", LayerKind::kNone},
                                                  {"mamba", LayerKind::kNone},
                                                  {"mamba2", LayerKind::kNone},
                                                  {"conv", LayerKind::kNone},
                                                  {"recurrent", LayerKind::kNone},
                                                  {"mlp", LayerKind::kNone},
                                                  {"moe", LayerKind::kNone}}};

class Reader {
 public:
  Reader(const Json& config, std::string name, std::string where)
      : fields_(config, std::move(where)) {
    geometry_.name = std::move(name);
  }

  Result<Geometry> Read() {
    ASHLAR_TRY(ReadSizes());
    ASHLAR_TRY(ReadLatent());
    ASHLAR_TRY(ReadLayers());
    ASHLAR_TRY(ReadKinds());
    ASHLAR_TRY(ReadSharedLayers());
    ASHLAR_TRY(ReadExperts());
    ASHLAR_TRY(ReadVectors());
    return std::move(geometry_);
  }

 private:
  Status ReadSizes();
  Status ReadHeadDim();
  Status ReadLatent();
  Status ReadLayers();
  Result<std::vector<std::uint32_t>> KvHeadsByLayer();
  Status ReadKinds();
  Result<std::vector<LayerKind>> KindsByLayer();
  Result<std::vector<LayerKind>> KindsByWords(const std::vector<std::string>& words);
  Result<std::vector<LayerKind>> KindsByWindow();
  Status ReadSharedLayers();
  Status ReadExperts();
  Status ReadVectors();

  ConfigFields fields_;
  Geometry geometry_;
  std::vector<LayerKind> kinds_;
};

Status Reader::ReadSizes() {
  Geometry& g = geometry_;
  ASHLAR_ASSIGN(g.architecture_name, fields_.Text(kModelType));
  g.architecture = FindArchitecture(g.architecture_name);
  ASHLAR_ASSIGN(const std::uint32_t layers, fields_.Count32(kLayers, {1, kMaxLayers}));
  g.layers.resize(layers);
  ASHLAR_ASSIGN(g.hidden, fields_.Count32(kHidden, {1, kMaxHidden}));
  ASHLAR_ASSIGN(g.heads, fields_.Count32(kHeads, {1, kMaxHeads}));
  ASHLAR_ASSIGN(g.feed_forward,
                fields_.Count32(kFeedForward, {1, kMaxFeedForward}, std::uint32_t{4} * g.hidden));
  ASHLAR_ASSIGN(g.vocab, fields_.Count32(kVocab, {1, kMaxVocab}));
  ASHLAR_ASSIGN(g.context, fields_.Count(kContext, {1, kMaxContext}, 0));
  ASHLAR_ASSIGN(g.is_tied, fields_.Flag(kTied, g.architecture.is_tied));
  ASHLAR_ASSIGN(const std::string dtype, fields_.Text(kDtype));
  g.weight_format = dtype == "float32" ? "F32" : dtype == "float16" ? "F16" : "BF16";
  return {};
}

Status Reader::ReadLatent() {
  if (!fields_.Has(kKvRank)) return ReadHeadDim();
  constexpr Limits kDims = {1, kMaxHeadDim};
  LatentAttention latent;
  ASHLAR_ASSIGN(latent.kv_rank, fields_.Count32(kKvRank, kDims));
  ASHLAR_ASSIGN(latent.query_rank, fields_.Count32(kQueryRank, {0, kMaxHidden}, 0));
  ASHLAR_ASSIGN(latent.rope_dim, fields_.Count32(kRopeHeadDim, kDims));
  ASHLAR_ASSIGN(latent.plain_dim, fields_.Count32(kPlainHeadDim, kDims, 128));
  ASHLAR_ASSIGN(latent.value_dim, fields_.Count32(kValueDim, kDims, 128));
  if ((latent.kv_rank + latent.rope_dim) % 8 != 0 ||
      latent.kv_rank + latent.rope_dim > kMaxHeadDim) {
    return fields_.Wrong(
        kKvRank, fmt::format("with the {} rotary channels a token keeps {} "
                             "numbers; KV blocks hold a multiple of 8 up to {}",
                             latent.rope_dim, latent.kv_rank + latent.rope_dim, kMaxHeadDim));
  }
  geometry_.latent = latent;
  geometry_.head_dim = latent.plain_dim + latent.rope_dim;
  return {};
}

Status Reader::ReadHeadDim() {
  Geometry& g = geometry_;
  constexpr std::string_view kRight = "KV blocks hold heads of a multiple of 8 up to 1024";
  if (fields_.Has(kHeadDim)) {
    ASHLAR_ASSIGN(g.head_dim, fields_.Count32(kHeadDim, {8, kMaxHeadDim}));
    if (g.head_dim % 8 != 0) return fields_.Wrong(kHeadDim, kRight);
    return {};
  }
  g.head_dim = g.hidden / g.heads;
  if (g.hidden % g.heads != 0 || g.head_dim % 8 != 0 || g.head_dim > kMaxHeadDim) {
    return fields_.Wrong(
        kHidden, fmt::format("there is no \"head_dim\", and a {}th of it is no size of a head: {}",
                             g.heads, kRight));
  }
  return {};
}

Result<std::vector<std::uint32_t>> Reader::KvHeadsByLayer() {
  const std::size_t layers = geometry_.layers.size();
  const Limits limits = {0, geometry_.heads};
  // Falcon: the number of kv heads means nothing in the first architecture, where all query heads
  // share one (multi_query), or none do.
  if (fields_.Has(kMultiQuery)) {
    ASHLAR_ASSIGN(const bool is_new, fields_.Flag(kNewDecoder, false));
    ASHLAR_ASSIGN(const bool is_multi_query, fields_.Flag(kMultiQuery, false));
    if (!is_new) {
      return std::vector<std::uint32_t>(layers, is_multi_query ? 1 : geometry_.heads);
    }
  }
  return fields_.CountByLayer(kKvHeads, limits, layers, geometry_.heads);
}

Status Reader::ReadLayers() {
  Geometry& g = geometry_;
  if (g.latent) {
    const std::uint32_t row = g.latent->kv_rank + g.latent->rope_dim;
    std::ranges::fill(g.layers, model::LayerKv{.kv_heads = 1, .key_dim = row, .value_dim = 0});
    return {};
  }
  ASHLAR_ASSIGN(const std::vector<std::uint32_t> kv_heads, KvHeadsByLayer());
  ASHLAR_ASSIGN(const std::uint32_t value_dim,
                fields_.Count32(kValueDim, {8, kMaxHeadDim}, g.head_dim));
  if (value_dim % 8 != 0) {
    return fields_.Wrong(kValueDim, "KV blocks hold heads of a multiple of 8 up to 1024");
  }
  for (std::size_t i = 0; i < g.layers.size(); ++i) {
    if (kv_heads[i] > 0 && g.heads % kv_heads[i] != 0) {
      return fields_.Wrong(kKvHeads,
                           fmt::format("it must divide the {} query heads evenly", g.heads));
    }
    if (kv_heads[i] == 0) continue;
    g.layers[i] = {.kv_heads = kv_heads[i], .key_dim = g.head_dim, .value_dim = value_dim};
  }
  return {};
}

Result<std::vector<LayerKind>> Reader::KindsByWords(const std::vector<std::string>& words) {
  std::vector<LayerKind> kinds;
  kinds.reserve(words.size());
  for (const std::string& word : words) {
    const auto known = std::ranges::find(kKindNames, word, &KindName::name);
    if (known == kKindNames.end()) {
      std::vector<std::string_view> names;
      std::ranges::transform(kKindNames, std::back_inserter(names), &KindName::name);
      return fields_.Wrong(kLayerTypes, fmt::format("'{}' is none of {}", word.substr(0, 60),
                                                    fmt::join(names, ", ")));
    }
    kinds.push_back(known->kind);
  }
  return kinds;
}

// Only a width is given: which layers have the window is a matter of the family.
Result<std::vector<LayerKind>> Reader::KindsByWindow() {
  const std::uint32_t layers = static_cast<std::uint32_t>(geometry_.layers.size());
  std::vector<LayerKind> kinds(layers, LayerKind::kFull);
  const Architecture& architecture = geometry_.architecture;
  ASHLAR_ASSIGN(const bool is_used, fields_.Flag(kUseWindow, !architecture.is_window_optional));
  if (!fields_.Has(kWindow) || !is_used) return kinds;
  ASHLAR_ASSIGN(const std::uint64_t window, fields_.Count(kWindow, {0, kMaxContext}));
  if (window == 0) return kinds;
  std::uint32_t every = architecture.full_layer_every;
  std::uint32_t first = 0;
  if (architecture.is_window_optional) {
    ASHLAR_ASSIGN(first, fields_.Count32(kFullLayersFirst, {0, kMaxLayers}, 0));
  }
  // Some sources describe the pattern in words; the architecture's own stands then.
  if (fields_.Has(kWindowPattern) && !fields_.Text(kWindowPattern).ok()) {
    ASHLAR_ASSIGN(every, fields_.Count32(kWindowPattern, {1, kMaxLayers}));
  } else if (!architecture.is_known) {
    return fields_.Wrong(
        kWindow, fmt::format("of architecture '{}' it is not known which layers have the window; "
                             "say so with \"layer_types\", or with \"sliding_window_pattern\": n "
                             "where every n-th layer is full",
                             geometry_.architecture_name));
  }
  for (std::uint32_t i = first; i < layers; ++i) {
    const bool is_full = every > 0 && (i + 1) % every == 0;
    if (!is_full) kinds[i] = LayerKind::kSliding;
  }
  return kinds;
}

Result<std::vector<LayerKind>> Reader::KindsByLayer() {
  const std::uint32_t layers = static_cast<std::uint32_t>(geometry_.layers.size());
  ASHLAR_ASSIGN(const std::vector<std::string> words, fields_.WordsByLayer(kLayerTypes, layers));
  if (!words.empty()) return KindsByWords(words);
  std::uint32_t period = 0;
  std::uint32_t offset = 0;
  if (fields_.Has(kAttentionPeriod)) {
    ASHLAR_ASSIGN(period, fields_.Count32(kAttentionPeriod, {1, kMaxLayers}));
    ASHLAR_ASSIGN(offset, fields_.Count32(kAttentionOffset, {0, period - 1}, 0));
  } else if (fields_.Has(kFullInterval)) {
    ASHLAR_ASSIGN(period, fields_.Count32(kFullInterval, {1, kMaxLayers}));
    offset = period - 1;
  }
  if (period == 0) return KindsByWindow();
  std::vector<LayerKind> kinds(layers, LayerKind::kNone);
  for (std::uint32_t i = offset; i < layers; i += period) kinds[i] = LayerKind::kFull;
  return kinds;
}

Status Reader::ReadKinds() {
  Geometry& g = geometry_;
  ASHLAR_ASSIGN(kinds_, KindsByLayer());
  const auto count = [&](LayerKind kind) { return std::ranges::count(kinds_, kind); };
  std::uint64_t window = 0;
  std::uint64_t chunk = 0;
  if (count(LayerKind::kSliding) > 0) {
    ASHLAR_ASSIGN(window, fields_.Count(kWindow, {1, kMaxContext}));
  }
  if (count(LayerKind::kChunked) > 0) {
    ASHLAR_ASSIGN(chunk, fields_.Count(kChunk, {1, kMaxContext}));
    g.notes.push_back(fmt::format(
        "chunked attention over {} tokens is counted as a window of as many: never less than it "
        "keeps",
        FormatWithCommas(chunk)));
  }
  if (count(LayerKind::kNone) > 0) {
    g.architecture.is_known = false;
    g.notes.push_back(
        fmt::format("{} of {} layers keep no keys and values; what they keep instead does not grow "
                    "with the text and is not counted",
                    count(LayerKind::kNone), kinds_.size()));
  }
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i] == LayerKind::kSliding) g.layers[i].window = window;
    if (kinds_[i] == LayerKind::kChunked) g.layers[i].window = chunk;
    if (kinds_[i] == LayerKind::kNone) g.layers[i] = {};
  }
  if (std::ranges::none_of(g.layers, [](const auto& layer) { return layer.kv_heads > 0; })) {
    return MakeError(ErrorCode::kUnsupported, "{}: no layer keeps keys and values",
                     fields_.where());
  }
  return {};
}

// The last layers read what the last layer of their kind before them keeps (Gemma 3n).
Status Reader::ReadSharedLayers() {
  Geometry& g = geometry_;
  const std::uint32_t layers = static_cast<std::uint32_t>(g.layers.size());
  ASHLAR_ASSIGN(const std::uint32_t shared, fields_.Count32(kSharedLayers, {0, layers - 1}, 0));
  if (shared == 0) return {};
  const std::uint32_t first = layers - shared;
  for (std::uint32_t i = first; i < layers; ++i) {
    if (g.layers[i].kv_heads == 0) continue;
    std::uint32_t source = first;
    while (source > 0 && (kinds_[source - 1] != kinds_[i] || g.layers[source - 1].kv_heads == 0)) {
      --source;
    }
    if (source == 0) {
      return fields_.Wrong(kSharedLayers,
                           fmt::format("layer {} has no layer of its kind before them", i));
    }
    g.layers[i] = {.source_layer = source - 1};
  }
  g.architecture.is_known = false;
  return {};
}

Status Reader::ReadExperts() {
  Geometry& g = geometry_;
  const std::uint32_t layers = static_cast<std::uint32_t>(g.layers.size());
  Experts experts;
  ASHLAR_ASSIGN(experts.count, fields_.Count32(kExperts, {0, kMaxExperts}, 0));
  if (experts.count == 0) return {};
  ASHLAR_ASSIGN(experts.active, fields_.Count32(kActiveExperts, {1, experts.count}, 0));
  ASHLAR_ASSIGN(experts.width, fields_.Count32(kExpertWidth, {1, kMaxFeedForward}, g.feed_forward));
  ASHLAR_ASSIGN(const std::uint64_t shared, fields_.Count(kSharedExperts, {0, kMaxExperts}, 0));
  ASHLAR_ASSIGN(experts.shared_width,
                fields_.Count(kSharedWidth, {0, kMaxFeedForward}, shared * experts.width));
  ASHLAR_ASSIGN(experts.dense_layers, fields_.Count32(kDenseLayers, {0, layers}, 0));
  ASHLAR_ASSIGN(experts.step, fields_.Count32(kExpertStep, {1, kMaxLayers}, 1));
  g.experts = experts;
  return {};
}

// What a config may say of vectors that the architecture leaves open.
Status Reader::ReadVectors() {
  Architecture& a = geometry_.architecture;
  ASHLAR_ASSIGN(const bool has_attention_bias, fields_.Flag(kAttentionBias, a.has_output_bias));
  if (fields_.Has(kAttentionBias)) a.has_qkv_bias = a.has_output_bias = has_attention_bias;
  ASHLAR_ASSIGN(a.has_feed_forward_bias, fields_.Flag(kMlpBias, a.has_feed_forward_bias));
  ASHLAR_ASSIGN(const bool is_new_decoder, fields_.Flag(kNewDecoder, false));
  if (is_new_decoder) a.layer_norms = 2;
  return {};
}

// Sub-objects whose fields stand for the model's: the language part of a larger one, and the
// registry's.
constexpr std::array<std::string_view, 4> kParts = {"text_config", "language_config", "mla", "moe"};

}  // namespace

Result<Geometry> ReadConfig(const Json& config, std::string name, std::string where) {
  if (!config.is_object()) {
    return MakeError(ErrorCode::kCorrupt, "{}: a model's config must be a JSON object", where);
  }
  Json flat = config;
  for (const std::string_view part : kParts) {
    const auto inner = config.find(part);
    if (inner != config.end() && inner->is_object()) flat.update(*inner);
  }
  return Reader(flat, std::move(name), std::move(where)).Read();
}

Result<Geometry> ParseConfig(std::string_view text, std::string name, std::string where) {
  if (text.size() > kMaxConfigBytes) {
    return MakeError(ErrorCode::kCorrupt, "{}: {} bytes; a config.json has at most {}", where,
                     text.size(), kMaxConfigBytes);
  }
  const Result<Json> config = ParseJson(text);
  if (!config.ok()) return MakeError(config.error().code, "{}: {}", where, config.error().message);
  return ReadConfig(*config, std::move(name), std::move(where));
}

}  // namespace ashlar::plan
