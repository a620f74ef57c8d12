#include "model/testing/tiny_blocks.h"

namespace ashlar::model {
namespace {

bool HasBiases(const TinyLayer& layer) {
  return layer.options.has_biases || layer.family.biases == TinyBiases::kAll;
}

void AddDense(TinyTensors& tensors, const TinyLayer& layer) {
  const std::uint64_t hidden = layer.options.hidden;
  const std::uint64_t width = layer.options.feed_forward;
  const auto add = [&](const char* name, const TinyTensors::Shape& shape) {
    tensors.Matrix(layer.block + name + ".weight", shape);
    if (HasBiases(layer)) tensors.Vector(layer.block + name + ".bias", shape.rows, {});
  };
  const TinyGate gate = layer.family.gate;
  if (gate == TinyGate::kSeparate) add("ffn_gate", {.rows = width, .columns = hidden});
  add("ffn_up", {.rows = gate == TinyGate::kFusedWithUp ? 2 * width : width, .columns = hidden});
  add("ffn_down", {.rows = hidden, .columns = width});
}

// A router that prefers, and the experts of a layer stacked.
void AddExperts(TinyTensors& tensors, const TinyLayer& layer) {
  const TinyExperts& experts = layer.options.experts;
  const std::uint64_t hidden = layer.options.hidden;
  const bool has_biases = HasBiases(layer);
  tensors.FloatMatrix(layer.block + "ffn_gate_inp.weight",
                      {.rows = experts.count, .columns = hidden, .gain = 2.0});
  if (has_biases) tensors.Vector(layer.block + "ffn_gate_inp.bias", experts.count, {});
  if (experts.is_sigmoid) tensors.Vector(layer.block + "exp_probs_b.bias", experts.count, {});
  const auto add = [&](const char* name, TinyTensors::Shape shape) {
    shape.count = experts.count;
    tensors.Matrix(layer.block + name + ".weight", shape);
    if (has_biases) tensors.Vectors(layer.block + name + ".bias", shape.count, shape.rows, {});
  };
  const double gain = layer.family.expert_gain;
  add("ffn_gate_exps", {.rows = experts.feed_forward, .columns = hidden, .gain = gain});
  add("ffn_up_exps", {.rows = experts.feed_forward, .columns = hidden, .gain = gain});
  add("ffn_down_exps", {.rows = hidden, .columns = experts.feed_forward, .gain = 1.0 / gain});
}

// What every token takes besides; Qwen2's passes a gate of one output.
void AddSharedExpert(TinyTensors& tensors, const TinyLayer& layer) {
  const std::uint64_t hidden = layer.options.hidden;
  const std::uint64_t width = layer.options.experts.shared_feed_forward;
  tensors.Matrix(layer.block + "ffn_gate_shexp.weight", {.rows = width, .columns = hidden});
  tensors.Matrix(layer.block + "ffn_up_shexp.weight", {.rows = width, .columns = hidden});
  tensors.Matrix(layer.block + "ffn_down_shexp.weight", {.rows = hidden, .columns = width});
  if (layer.options.architecture == "qwen2moe") {
    tensors.Vector(layer.block + "ffn_gate_inp_shexp.weight", hidden, {});
  }
}

}  // namespace

void AddTinyFeedForward(TinyTensors& tensors, const TinyLayer& layer) {
  const TinyFamily& family = layer.family;
  const std::uint64_t hidden = layer.options.hidden;
  if (!family.feed_forward_norm.empty()) {
    AddTinyNorm(tensors, family, layer.block + std::string(family.feed_forward_norm), hidden);
  }
  if (layer.has_experts()) {
    AddExperts(tensors, layer);
    if (layer.options.experts.shared > 0) AddSharedExpert(tensors, layer);
  } else {
    AddDense(tensors, layer);
  }
  if (family.has_sandwich_norms) {
    AddTinyNorm(tensors, family, layer.block + "post_ffw_norm", hidden);
  }
}

}  // namespace ashlar::model
