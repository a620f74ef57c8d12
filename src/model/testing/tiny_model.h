// Tiny models with random weights, as GGUF: one for each family and each architecture option, so
// that every branch of the forward pass has a model that takes it. Seeded: the same options give
// the same bytes.
//
// Names, shapes and metadata keys are those that llama.cpp's converter writes for the family. Rest
// as it comes: numbers are drawn so that routers decide, caps bend, windows are crossed.
//
// The vocabulary is byte-level BPE without merges: 256 byte tokens, then the special tokens
// "<|im_start|>", "<|im_end|>" and "<|endoftext|>", and a short chat template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "base/result.h"
#include "gguf/testing/gguf_writer.h"

namespace ashlar::model {

// Mixture of experts. Counts and widths are 0 where a family has none.
struct TinyExperts {
  std::uint32_t count = 0;  // 0: every layer is dense
  std::uint32_t used = 0;
  std::uint32_t feed_forward = 0;         // width of each
  std::uint32_t shared = 0;               // experts that every token takes, written as one
  std::uint32_t shared_feed_forward = 0;  // width of that one
  std::uint32_t leading_dense = 0;        // layers before the first with experts
  double weights_scale = 0.0;             // 0: no key
  bool has_weights_norm = false;
  bool is_sigmoid = false;  // else softmax; with a bias for the selection
};

// Multi-head latent attention; a head's channels are head_dim - rope_dims plain ones, then
// rope_dims rotated ones.
struct TinyLatent {
  std::uint32_t kv_rank = 0;  // 0: no latents
  std::uint32_t q_rank = 0;   // 0: queries are projected in one step
  std::uint32_t value_dim = 0;
  bool is_unsplit = false;  // old files: attn_kv_b instead of attn_k_b and attn_v_b
};

struct TinyModelOptions {
  std::string architecture = "llama";
  std::uint32_t layers = 2;
  std::uint32_t hidden = 256;
  std::uint32_t feed_forward = 512;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 64;
  std::uint32_t rope_dims = 64;
  std::uint32_t context = 2048;
  DType dtype = DType::kF32;  // of all matrices but routers
  bool is_tied = true;
  bool has_biases = false;            // on every matrix; what a family always has comes by itself
  bool has_rope_divisors = false;     // Llama 3's rope_freqs.weight
  bool has_rope_factors = false;      // Phi-3's rope_factors_long and _short
  std::string rope_scaling = "none";  // "none", "linear", "yarn"
  double rope_factor = 4.0;
  std::uint32_t original_context = 0;  // 0: a quarter of the context
  double yarn_log_multiplier = 0.0;    // DeepSeek's; 0: no key
  double rope_base = 10000.0;
  double sliding_rope_base = 0.0;            // 0: no key
  std::uint32_t window = 0;                  // of sliding layers; 0: no key
  std::vector<std::int64_t> window_pattern;  // per layer, 1 = sliding; empty: no key
  double attention_cap = 0.0;                // 0: no key
  double logit_cap = 0.0;                    // 0: no key
  bool has_second_norm = false;              // Falcon-40B: attention has a norm of its own
  TinyExperts experts;
  TinyLatent latent;
  std::uint64_t seed = 1;
};

inline constexpr std::uint32_t kTinyVocab = 259;
inline constexpr TokenId kTinyImStart = 256;
inline constexpr TokenId kTinyImEnd = 257;
inline constexpr TokenId kTinyEndOfText = 258;

// Precondition: the architecture is one of tiny_family.h.
gguf::GgufWriter MakeTinyModel(const TinyModelOptions& options);

struct NamedTinyModel {
  std::string_view name;
  TinyModelOptions options;
};

// Options that together take every branch: "plain", "untied", ..., "mixtral", "gemma3", ...
const std::vector<NamedTinyModel>& AllTinyModels();

// The named options. Errors: kInvalidArgument listing the names.
Result<TinyModelOptions> FindTinyModel(std::string_view name);

}  // namespace ashlar::model
