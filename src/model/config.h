// What a model file says about its architecture, checked and reduced to the numbers the forward
// pass needs. One data-driven description for every architecture of the Llama family.
#pragma once

#include <cstdint>
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
  double original_context = 0;  // tokens; YaRN
  double attention_factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
};

enum class RopePairs : std::uint8_t {
  kInterleaved,  // (2i, 2i+1): GGUF stores Q and K of `llama` permuted so
  kHalfSplit,    // (i, i + d/2): `qwen2`
};

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, or empty
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;  // embedding length
  std::uint32_t feed_forward = 0;
  std::uint32_t heads = 0;     // query heads
  std::uint32_t kv_heads = 0;  // divides heads
  std::uint32_t head_dim = 0;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  // tokens the model was trained for
  float norm_epsilon = 1e-5f;
  double rope_base = 10000.0;
  std::uint32_t rope_dims = 0;  // leading channels of each head that rotate
  RopePairs rope_pairs = RopePairs::kInterleaved;
  RopeScaling rope_scaling;

  std::uint32_t group() const { return heads / kv_heads; }  // query heads per kv head

  // Errors: kUnsupported (an architecture or feature outside the Llama family, named, with those we
  // run), kCorrupt (values that contradict each other or no model has).
  static Result<ModelConfig> Read(const gguf::ModelFile& file);
};

// The architectures Read accepts.
std::vector<std::string> SupportedArchitectures();

}  // namespace ashlar::model
