// Tiny models with random weights, as GGUF: one for each architecture option, so that every branch
// of the forward pass has a model that takes it. Seeded: the same options give the same bytes.
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
  DType dtype = DType::kF32;  // of all matrices
  bool is_tied = true;
  bool has_biases = false;
  bool has_rope_divisors = false;     // Llama 3's rope_freqs.weight
  std::string rope_scaling = "none";  // "none", "linear", "yarn"
  std::uint64_t seed = 1;
};

inline constexpr std::uint32_t kTinyVocab = 259;
inline constexpr TokenId kTinyImStart = 256;
inline constexpr TokenId kTinyImEnd = 257;
inline constexpr TokenId kTinyEndOfText = 258;

gguf::GgufWriter MakeTinyModel(const TinyModelOptions& options);

// Named options that together take every branch: "plain", "untied", "biases", "mha", "mqa", ...
struct NamedTinyModel {
  std::string_view name;
  TinyModelOptions options;
};
const std::vector<NamedTinyModel>& AllTinyModels();

// The named options. Errors: kInvalidArgument listing the names.
Result<TinyModelOptions> FindTinyModel(std::string_view name);

}  // namespace ashlar::model
