#include "plan/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"
#include "base/dtype.h"

namespace ashlar::plan {
namespace {

// A fraction of the bytes of f32: bits = 8 * block_bytes / block_elements.
struct Packing {
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
};

Packing PackingOf(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  return {info.block_elements, info.block_bytes};
}

enum class Mix : std::uint8_t { kNone, kSmall, kMedium };

struct Format {
  std::string_view name;
  // Of the matrices of layers; the plain ones store everything so.
  DType base;
  Mix mix = Mix::kNone;
  bool is_plain = false;
};
constexpr std::array<Format, 15> kFormats = {{{"F32", DType::kF32, Mix::kNone, true},
                                              {"F16", DType::kF16, Mix::kNone, true},
                                              {"BF16", DType::kBF16, Mix::kNone, true},
                                              {"Q8_0", DType::kQ8_0},
                                              {"FP8", DType::kBF16},
                                              {"Q6_K", DType::kQ6_K},
                                              {"Q5_1", DType::kQ5_1},
                                              {"Q5_K_M", DType::kQ5_K, Mix::kMedium},
                                              {"Q5_K_S", DType::kQ5_K, Mix::kSmall},
                                              {"Q5_0", DType::kQ5_0},
                                              {"Q4_1", DType::kQ4_1},
                                              {"Q4_K_M", DType::kQ4_K, Mix::kMedium},
                                              {"Q4_K_S", DType::kQ4_K, Mix::kSmall},
                                              {"Q4_0", DType::kQ4_0},
                                              {"MXFP4", DType::kBF16}}};

const Format& FormatOf(std::string_view name) {
  const auto* const format = std::ranges::find(kFormats, name, &Format::name);
  ASHLAR_CHECK(format != kFormats.end(), "weight format '{}'", name);
  return *format;
}

bool IsExpert(WeightRole role) {
  return role == WeightRole::kExperts || role == WeightRole::kExpertsDown;
}
bool IsDown(WeightRole role) {
  return role == WeightRole::kFeedForwardDown || role == WeightRole::kExpertsDown;
}

// The layers whose values and down matrices a medium mix stores finer (llama.cpp's use_more_bits).
bool HasMoreBits(std::uint32_t layer, std::uint32_t layers) {
  const std::uint32_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// What a K-quant becomes where a row is no whole number of blocks.
DType Narrower(DType dtype) {
  switch (dtype) {
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    default:
      return dtype;
  }
}

DType QuantisedType(const Format& format, const Weight& weight, const Geometry& geometry) {
  const auto layers = static_cast<std::uint32_t>(geometry.layers.size());
  const bool is_output = weight.role == WeightRole::kOutput ||
                         (weight.role == WeightRole::kEmbedding && geometry.is_tied);
  DType dtype = format.base;
  const bool is_fine = weight.role == WeightRole::kAttentionValue || IsDown(weight.role);
  if (is_output && format.base != DType::kQ8_0) {
    dtype = DType::kQ6_K;
  } else if (format.mix == Mix::kMedium && is_fine && HasMoreBits(weight.layer, layers)) {
    dtype = DType::kQ6_K;
  } else if (format.mix == Mix::kSmall && format.base == DType::kQ4_K && is_fine) {
    const std::uint32_t first = weight.role == WeightRole::kAttentionValue ? 4 : layers / 8;
    if (weight.layer < first) dtype = DType::kQ5_K;
  }
  if (!RowBytes(dtype, weight.columns)) dtype = Narrower(dtype);
  // Not even blocks of 32: stored as it is.
  return RowBytes(dtype, weight.columns) ? dtype : DType::kF16;
}

Packing PackingIn(const Format& format, const Weight& weight, const Geometry& geometry) {
  if (format.is_plain) return PackingOf(format.base);
  if (format.name == "FP8") {
    // As DeepSeek-V3 is published: matrices of layers in 8 bits, a scale for 128 x 128 of them.
    const bool is_plain =
        weight.role == WeightRole::kVector || weight.role == WeightRole::kRouter ||
        weight.role == WeightRole::kEmbedding || weight.role == WeightRole::kOutput;
    return is_plain ? PackingOf(DType::kBF16) : Packing{4096, 4097};
  }
  if (format.name == "MXFP4") {
    // As gpt-oss is published: experts in 4 bits with a byte of scale for 32, the rest in bf16.
    return IsExpert(weight.role) ? Packing{32, 17} : PackingOf(DType::kBF16);
  }
  if (weight.role == WeightRole::kVector || weight.role == WeightRole::kRouter) {
    return PackingOf(DType::kF32);
  }
  return PackingOf(QuantisedType(format, weight, geometry));
}

// Puts together the list of one model.
class Inventory {
 public:
  explicit Inventory(const Geometry& geometry) : g_(geometry), a_(geometry.architecture) {}

  std::vector<Weight> All() {
    Add(WeightRole::kEmbedding, g_.vocab, g_.hidden);
    if (!g_.is_tied) Add(WeightRole::kOutput, g_.vocab, g_.hidden);
    if (a_.has_lm_head_bias) Vector(g_.vocab);
    if (a_.has_learned_positions) Vector(g_.context * g_.hidden);
    for (layer_ = 0; layer_ < g_.layers.size(); ++layer_) {
      Vector(std::uint64_t{a_.layer_norms} * g_.hidden * (a_.norms_have_bias ? 2 : 1));
      if (g_.latent) {
        AddLatent(*g_.latent);
      } else {
        AddAttention(g_.layers[layer_]);
      }
      if (g_.experts && g_.experts->IsIn(layer_)) {
        AddExperts(*g_.experts);
      } else {
        AddFeedForward(WeightRole::kFeedForward, g_.feed_forward, 1, a_.has_feed_forward_bias);
      }
    }
    layer_ = 0;
    Vector(std::uint64_t{g_.hidden} * (a_.norms_have_bias ? 2 : 1));
    return std::move(weights_);
  }

 private:
  void Add(WeightRole role, std::uint64_t rows, std::uint64_t columns, std::uint64_t count = 1) {
    weights_.push_back(
        {.role = role, .rows = rows, .columns = columns, .count = count, .layer = layer_});
  }
  void Vector(std::uint64_t size) {
    if (size > 0) Add(WeightRole::kVector, 1, size);
  }

  void AddAttention(const model::LayerKv& layer) {
    const std::uint64_t query = std::uint64_t{g_.heads} * g_.head_dim;
    const std::uint64_t key = std::uint64_t{layer.kv_heads} * layer.key_dim;
    const std::uint64_t value = std::uint64_t{layer.kv_heads} * layer.value_dim;
    const std::uint64_t attended =
        std::uint64_t{g_.heads} * (layer.value_dim > 0 ? layer.value_dim : g_.head_dim);
    Add(WeightRole::kAttention, query, g_.hidden);
    if (key > 0) Add(WeightRole::kAttention, key, g_.hidden);
    if (value > 0) Add(WeightRole::kAttentionValue, value, g_.hidden);
    Add(WeightRole::kAttentionOutput, g_.hidden, attended);
    if (a_.has_qkv_bias) Vector(query + key + value);
    if (a_.has_output_bias) Vector(g_.hidden);
    if (a_.has_qk_norm) Vector(std::uint64_t{2} * g_.head_dim);
    if (a_.has_sink_logits) Vector(g_.heads);
  }

  void AddLatent(const LatentAttention& latent) {
    const std::uint64_t query = std::uint64_t{g_.heads} * g_.head_dim;
    const std::uint64_t kv_heads = std::uint64_t{g_.heads} * (latent.plain_dim + latent.value_dim);
    if (latent.query_rank > 0) {
      Add(WeightRole::kAttention, latent.query_rank, g_.hidden);
      Vector(latent.query_rank);
      Add(WeightRole::kAttention, query, latent.query_rank);
    } else {
      Add(WeightRole::kAttention, query, g_.hidden);
    }
    Add(WeightRole::kAttention, latent.kv_rank + latent.rope_dim, g_.hidden);
    Vector(latent.kv_rank);
    Add(WeightRole::kAttention, kv_heads, latent.kv_rank);
    Add(WeightRole::kAttentionOutput, g_.hidden, std::uint64_t{g_.heads} * latent.value_dim);
  }

  void AddFeedForward(WeightRole role, std::uint64_t width, std::uint64_t count, bool has_bias) {
    const bool is_experts = role == WeightRole::kExperts;
    Add(role, width, g_.hidden, count * (a_.is_gated ? 2 : 1));
    Add(is_experts ? WeightRole::kExpertsDown : WeightRole::kFeedForwardDown, g_.hidden, width,
        count);
    if (has_bias) Vector(count * (width * (a_.is_gated ? 2 : 1) + g_.hidden));
  }

  void AddExperts(const Experts& experts) {
    Add(WeightRole::kRouter, experts.count, g_.hidden);
    if (a_.has_expert_bias || a_.has_router_offset) Vector(experts.count);
    AddFeedForward(WeightRole::kExperts, experts.width, experts.count, a_.has_expert_bias);
    if (experts.shared_width > 0) {
      AddFeedForward(WeightRole::kFeedForward, experts.shared_width, 1, false);
    }
  }

  const Geometry& g_;
  const Architecture& a_;
  std::vector<Weight> weights_;
  std::uint32_t layer_ = 0;
};

}  // namespace

std::vector<Weight> WeightsOf(const Geometry& geometry) { return Inventory(geometry).All(); }

std::uint64_t ParametersOf(std::span<const Weight> weights) {
  std::uint64_t parameters = 0;
  for (const Weight& weight : weights) parameters += weight.elements();
  return parameters;
}

std::span<const std::string_view> WeightFormats() {
  static const auto kNames = [] {
    std::array<std::string_view, kFormats.size()> names;
    std::ranges::transform(kFormats, names.begin(), &Format::name);
    return names;
  }();
  return kNames;
}

Result<std::string_view> ParseWeightFormat(std::string_view name) {
  const auto same = [&](std::string_view known) {
    return std::ranges::equal(known, name, [](unsigned char a, unsigned char b) {
      return std::toupper(a) == std::toupper(b);
    });
  };
  const auto found = std::ranges::find_if(WeightFormats(), same);
  if (found != WeightFormats().end()) return *found;
  return MakeError(ErrorCode::kInvalidArgument, "weight format '{}' is unknown; use one of: {}",
                   name, fmt::join(WeightFormats(), ", "));
}

std::uint64_t BytesOf(std::span<const Weight> weights, const Geometry& geometry,
                      std::string_view format) {
  const Format& row = FormatOf(format);
  std::uint64_t bytes = 0;
  for (const Weight& weight : weights) {
    const Packing packing = PackingIn(row, weight, geometry);
    // Blocks first: elements times bytes could overflow.
    const std::uint64_t elements = weight.elements();
    bytes +=
        elements / packing.block_elements * packing.block_bytes +
        (elements % packing.block_elements * packing.block_bytes + packing.block_elements - 1) /
            packing.block_elements;
  }
  return bytes;
}

}  // namespace ashlar::plan
