// What a model's weights are made of, and their bytes in a format, from its geometry alone.
//
// The number of parameters is exact for the architectures that architecture.h knows. Plain formats
// (F32, F16, BF16) have the bytes of a safetensors file. In quantised ones every matrix has the
// dtype that llama.cpp's converter gives it by name and layer (the S and M mixes, the output
// matrix, rows that are no whole number of blocks), vectors and routers are F32: an estimate, as
// converters have changed their rules and files may have been made with others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/geometry.h"

namespace ashlar::plan {

enum class WeightRole : std::uint8_t {
  kEmbedding,  // also the output matrix when is_tied
  kOutput,
  kAttention,  // of queries, keys, latents
  kAttentionValue,
  kAttentionOutput,
  kFeedForward,  // gate and up
  kFeedForwardDown,
  kExperts,  // gate and up of experts
  kExpertsDown,
  kRouter,
  kVector,  // norms, biases, positions
};

// `count` matrices [rows, columns] of one layer, or of none.
struct Weight {
  WeightRole role = WeightRole::kVector;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;  // a row's length
  std::uint64_t count = 1;
  std::uint32_t layer = 0;
  std::uint64_t elements() const { return rows * columns * count; }
};

std::vector<Weight> WeightsOf(const Geometry& geometry);
std::uint64_t ParametersOf(std::span<const Weight> weights);

// "F32", "F16", "BF16", "FP8", "MXFP4", "Q8_0", "Q6_K", "Q5_K_M", ...
std::span<const std::string_view> WeightFormats();
// Error: kInvalidArgument naming the formats. Any case.
Result<std::string_view> ParseWeightFormat(std::string_view name);

// Precondition: a name of WeightFormats().
std::uint64_t BytesOf(std::span<const Weight> weights, const Geometry& geometry,
                      std::string_view format);

}  // namespace ashlar::plan
