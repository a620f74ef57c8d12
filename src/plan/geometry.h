// A model's shape as data: what its layers keep of every token, and what its weights are made of.
// Where it came from (a GGUF file, a config.json, the registry) makes no difference any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/kv_layout.h"
#include "plan/architecture.h"

namespace ashlar::plan {

// Bounds on what is believed of a model, far above any there is. Within them weights have fewer
// than 2^63 bytes, and no sum here overflows.
inline constexpr std::uint64_t kMaxLayers = 1024;
inline constexpr std::uint64_t kMaxHeads = 1024;
inline constexpr std::uint64_t kMaxHeadDim = 1024;
inline constexpr std::uint64_t kMaxHidden = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMaxFeedForward = std::uint64_t{1} << 21;
inline constexpr std::uint64_t kMaxVocab = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMaxContext = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kMaxExperts = 2048;

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): a token keeps one latent of
// kv_rank + rope_dim numbers a layer, from which K and V of all heads follow.
struct LatentAttention {
  std::uint32_t query_rank = 0;  // 0: queries are projected at once
  std::uint32_t kv_rank = 0;
  std::uint32_t rope_dim = 0;   // channels of a key that rotate, the same for all heads
  std::uint32_t plain_dim = 0;  // channels of a head's key that do not
  std::uint32_t value_dim = 0;  // channels of a head's value
};

struct Experts {
  std::uint32_t count = 0;
  std::uint32_t active = 0;        // of them, for a token; 0: not said
  std::uint32_t width = 0;         // of one expert's feed-forward part
  std::uint64_t shared_width = 0;  // of what every token passes through besides; 0: nothing
  std::uint32_t dense_layers = 0;  // the first so many layers have no experts
  std::uint32_t step = 1;          // of the others, layer i has experts when (i + 1) % step == 0

  bool IsIn(std::uint32_t layer) const { return layer >= dense_layers && (layer + 1) % step == 0; }
};

struct Geometry {
  std::string name;               // "llama-3-70b"; a file's name
  std::string architecture_name;  // as the source says it
  Architecture architecture;      // what else its layers have; a guess where is_known is false
  std::vector<model::LayerKv> layers;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;         // query heads
  std::uint32_t head_dim = 0;      // of a query and of a key; MLA: of both parts together
  std::uint32_t feed_forward = 0;  // of a dense layer
  std::uint32_t vocab = 0;
  std::uint64_t context = 0;  // tokens it was trained for; 0: not said
  bool is_tied = false;       // the output matrix is the embedding table
  std::optional<LatentAttention> latent = {};
  std::optional<Experts> experts = {};
  std::string weight_format = "BF16";   // as published (weights.h)
  std::vector<std::string> notes = {};  // what a reader should know of how the source was read
};

// The dims of "8 kv heads of 128" when all layers that keep anything keep the same, windows apart.
std::optional<model::LayerKv> UniformLayer(const Geometry& geometry);

// "80 layers, 64 query heads over 8 kv heads of 128 (GQA), ..." for people, in two lines.
std::vector<std::string> Describe(const Geometry& geometry);

}  // namespace ashlar::plan
