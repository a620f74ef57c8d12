// What a model file says about its architecture, checked and reduced to the numbers the forward
// pass needs. One description for all architectures: what differs between them is data here, and a
// row of family.h says what of it a file does not tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/model_file.h"

namespace ashlar::model {

// How the rotary embedding is stretched beyond the trained context.
struct RopeScaling {
  enum class Kind : std::uint8_t {
    kNone,
    kLinear,  // positions divided by `factor` (Chen et al. 2023, arXiv:2306.15595)
    kYarn,    // per-frequency blend (Peng et al. 2023, arXiv:2309.00071)
  };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  double original_context = 0;  // tokens; YaRN, and where there are two sets of divisors
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool is_rounded = true;  // YaRN: the ends of the blend are whole pairs
  double magnitude = 1.0;  // of cosine and sine
};

enum class RopePairs : std::uint8_t {
  kInterleaved,  // (2i, 2i+1): GGUF stores Q and K of `llama` permuted so
  kHalfSplit,    // (i, i + d/2)
};

// One set of rotary angles. Models with windows may have another one for the windowed layers.
struct RopeSpec {
  double base = 10000.0;
  RopeScaling scaling;
};

enum class NormKind : std::uint8_t {
  kRms,    // Zhang and Sennrich 2019, arXiv:1910.07467
  kLayer,  // Ba et al. 2016, arXiv:1607.06450; with a bias
};

// kernel_set.h has the formulas.
enum class Activation : std::uint8_t {
  kSilu,         // gated
  kGeluTanh,     // gated or not
  kGeluErf,      // not gated
  kSiluClamped,  // gated, both factors clamped (gpt-oss)
};

struct LayerConfig {
  std::uint32_t window = 0;               // a query reads that many keys, its own included; 0: all
  std::optional<std::uint32_t> rope = 0;  // index into ModelConfig::ropes; none: positions are not
                                          // told apart
  bool has_experts = false;
};

// A feed-forward network of which each token uses a part (mixture of experts).
struct ExpertsConfig {
  enum class Gating : std::uint8_t {
    kSoftmax,        // weights: softmax over all experts
    kSigmoid,        // weights: sigmoid of each
    kSoftmaxOfUsed,  // weights: softmax over those chosen
  };
  std::uint32_t count = 0;
  std::uint32_t used = 0;          // per token
  std::uint32_t feed_forward = 0;  // width of each
  std::uint32_t shared = 0;        // width of the one that every token uses; 0: none
  bool has_shared_gate = false;    // the shared one is weighted by a sigmoid (Qwen2-MoE)
  Gating gating = Gating::kSoftmax;
  bool is_normalised = false;  // weights are divided by their sum
  float scale = 1.0f;          // of the weights, after that
  std::uint32_t groups = 1;  // experts are chosen from `used_groups` of so many groups, those with
  std::uint32_t used_groups = 1;  // the largest sum of two best (DeepSeek-V3)
};

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): what is cached of a token is one
// latent vector and one rotated key for all heads. Computed in the latent space ("absorbed"), in
// prefill as in decode: keys and values are never expanded, so that one arithmetic serves both.
struct LatentConfig {
  std::uint32_t query_rank = 0;  // queries go through so many channels; 0: directly
  std::uint32_t rank = 0;        // channels of the latent
  std::uint32_t plain_dim = 0;   // channels of a query head without position
  std::uint32_t value_dim = 0;   // channels of a head's output
};

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, or empty
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;        // embedding length
  std::uint32_t feed_forward = 0;  // of layers without experts
  std::uint32_t heads = 0;         // query heads
  std::uint32_t kv_heads = 0;      // divides heads; 1 with a latent
  std::uint32_t head_dim = 0;      // of a cached key: with a latent its rank and the rotated part
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  // tokens the model was trained for

  NormKind norm = NormKind::kRms;
  float norm_epsilon = 1e-5f;
  Activation activation = Activation::kSilu;
  bool is_gated = true;          // the feed-forward network has a gate beside `up`
  bool has_qk_norm = false;      // queries and keys are normalised head by head before they rotate
  bool has_post_norms = false;   // what attention and feed-forward give is normalised before it is
                                 // added (Gemma 2 and 3)
  bool is_parallel = false;      // both read the layer's input (Falcon)
  bool has_positions = false;    // learned, added to the embedding (GPT-2)
  bool has_sink_logits = false;  // learned, one a head (gpt-oss)
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;  // of logits; 0: 1 / sqrt(head_dim)
  float attention_softcap = 0.0f;
  float logit_softcap = 0.0f;

  std::uint32_t rope_dims = 0;  // channels of each head that rotate; with a latent the last ones,
                                // else the first
  RopePairs rope_pairs = RopePairs::kInterleaved;
  std::vector<RopeSpec> ropes = std::vector<RopeSpec>(1);
  std::vector<LayerConfig> layer;  // [layers]; empty: all as LayerConfig is by default
  std::optional<ExpertsConfig> experts;
  std::optional<LatentConfig> latent;
  bool has_column_orders = false;  // some weights want their inputs in another order (linear.h)

  std::uint32_t group() const { return heads / kv_heads; }  // query heads per kv head
  LayerConfig LayerAt(std::size_t index) const {
    return layer.empty() ? LayerConfig{} : layer[index];
  }
  // Channels of a head's result in attention.
  std::uint32_t attended_dim() const { return latent ? latent->rank : head_dim; }

  // Errors: kUnsupported (an architecture or feature we do not run, named, with those we do),
  // kCorrupt (values that contradict each other or no model has).
  static Result<ModelConfig> Read(const gguf::ModelFile& file);
};

// The architectures Read accepts.
std::vector<std::string> SupportedArchitectures();

}  // namespace ashlar::model
