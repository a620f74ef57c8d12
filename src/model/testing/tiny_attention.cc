#include "model/testing/tiny_blocks.h"

namespace ashlar::model {
namespace {

struct Linear {
  std::uint64_t rows;
  std::uint64_t columns;
  bool has_bias;
};

void AddLinear(TinyTensors& tensors, const std::string& name, const Linear& linear) {
  tensors.Matrix(name + ".weight", {.rows = linear.rows, .columns = linear.columns});
  if (linear.has_bias) tensors.Vector(name + ".bias", linear.rows, {});
}

// DeepSeek's: queries, the latent row that is cached, and how heads are made of it.
void AddLatentProjections(TinyTensors& tensors, const TinyLayer& layer) {
  const TinyModelOptions& o = layer.options;
  const std::string& blk = layer.block;
  const std::uint64_t query = std::uint64_t{o.heads} * o.head_dim;
  const std::uint64_t plain = o.head_dim - o.rope_dims;
  const std::uint64_t rank = o.latent.kv_rank;
  if (o.latent.q_rank > 0) {
    tensors.Matrix(blk + "attn_q_a.weight", {.rows = o.latent.q_rank, .columns = o.hidden});
    AddTinyNorm(tensors, layer.family, blk + "attn_q_a_norm", o.latent.q_rank);
    tensors.Matrix(blk + "attn_q_b.weight", {.rows = query, .columns = o.latent.q_rank});
  } else {
    tensors.Matrix(blk + "attn_q.weight", {.rows = query, .columns = o.hidden});
  }
  tensors.Matrix(blk + "attn_kv_a_mqa.weight", {.rows = rank + o.rope_dims, .columns = o.hidden});
  AddTinyNorm(tensors, layer.family, blk + "attn_kv_a_norm", rank);
  if (o.latent.is_unsplit) {
    tensors.Matrix(blk + "attn_kv_b.weight",
                   {.rows = o.heads * (plain + o.latent.value_dim), .columns = rank});
    return;
  }
  tensors.Matrix(blk + "attn_k_b.weight", {.rows = rank, .columns = plain, .count = o.heads});
  tensors.Matrix(blk + "attn_v_b.weight",
                 {.rows = o.latent.value_dim, .columns = rank, .count = o.heads});
}

void AddProjections(TinyTensors& tensors, const TinyLayer& layer) {
  const TinyModelOptions& o = layer.options;
  const std::uint64_t query = std::uint64_t{o.heads} * o.head_dim;
  const std::uint64_t key_value = std::uint64_t{o.kv_heads} * o.head_dim;
  const bool has_biases = o.has_biases || layer.family.biases != TinyBiases::kNone;
  const auto add = [&](const char* name, std::uint64_t rows) {
    AddLinear(tensors, layer.block + name,
              {.rows = rows, .columns = o.hidden, .has_bias = has_biases});
  };
  if (layer.family.qkv == TinyQkv::kFused) return add("attn_qkv", query + 2 * key_value);
  add("attn_q", query);
  add("attn_k", key_value);
  add("attn_v", key_value);
}

}  // namespace

void AddTinyNorm(TinyTensors& tensors, const TinyFamily& family, const std::string& name,
                 std::uint64_t size) {
  tensors.Vector(name + ".weight", size, {.around = 1.0f, .deviation = 0.1f});
  if (family.is_layer_norm) tensors.Vector(name + ".bias", size, {.deviation = 0.1f});
}

void AddTinyAttention(TinyTensors& tensors, const TinyLayer& layer) {
  const TinyModelOptions& o = layer.options;
  const TinyFamily& family = layer.family;
  const std::string& blk = layer.block;
  AddTinyNorm(tensors, family, blk + "attn_norm", o.hidden);
  if (o.has_second_norm) AddTinyNorm(tensors, family, blk + "attn_norm_2", o.hidden);
  const bool is_latent = o.latent.kv_rank > 0;
  if (is_latent) {
    AddLatentProjections(tensors, layer);
  } else {
    AddProjections(tensors, layer);
  }
  if (family.has_qk_norms) {
    AddTinyNorm(tensors, family, blk + "attn_q_norm", o.head_dim);
    AddTinyNorm(tensors, family, blk + "attn_k_norm", o.head_dim);
  }
  if (family.has_sinks) {
    tensors.Vector(blk + "attn_sinks.weight", o.heads, {.around = 1.0f, .deviation = 1.0f});
  }
  AddLinear(tensors, blk + "attn_output",
            {.rows = o.hidden,
             .columns = std::uint64_t{o.heads} * (is_latent ? o.latent.value_dim : o.head_dim),
             .has_bias = o.has_biases || family.biases == TinyBiases::kAll});
  if (family.has_sandwich_norms) {
    AddTinyNorm(tensors, family, blk + "post_attention_norm", o.hidden);
  }
}

}  // namespace ashlar::model
