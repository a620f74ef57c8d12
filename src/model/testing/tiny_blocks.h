// The parts of a layer of a tiny model. Names begin with `block`, "blk.3." for instance.
#pragma once

#include <cstdint>
#include <string>

#include "model/testing/tiny_family.h"
#include "model/testing/tiny_model.h"
#include "model/testing/tiny_tensors.h"

namespace ashlar::model {

struct TinyLayer {
  const TinyFamily& family;
  const TinyModelOptions& options;
  std::uint32_t index;
  std::string block;

  bool has_experts() const {
    return options.experts.count > 0 && index >= options.experts.leading_dense;
  }
};

// An RMSNorm or LayerNorm around 1.
void AddTinyNorm(TinyTensors& tensors, const TinyFamily& family, const std::string& name,
                 std::uint64_t size);

// A norm, what attention multiplies with, and a norm after it where the family has one.
void AddTinyAttention(TinyTensors& tensors, const TinyLayer& layer);

// The same for the dense or the expert feed-forward part.
void AddTinyFeedForward(TinyTensors& tensors, const TinyLayer& layer);

}  // namespace ashlar::model
