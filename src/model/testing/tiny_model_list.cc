// The named tiny models.
#include "model/testing/tiny_model.h"

namespace ashlar::model {
namespace {

// Geometry that most families share: half as wide as the plain model.
TinyModelOptions Small(std::string architecture) {
  return {.architecture = std::move(architecture),
          .layers = 3,
          .hidden = 128,
          .feed_forward = 192,
          .head_dim = 32,
          .rope_dims = 32};
}

TinyModelOptions With(TinyModelOptions options, void (*change)(TinyModelOptions&)) {
  change(options);
  return options;
}

TinyModelOptions Mixtral() {
  return With(Small("llama"), [](TinyModelOptions& o) {
    o.is_tied = false;
    o.experts = {.count = 8, .used = 2, .feed_forward = o.feed_forward};
  });
}

TinyModelOptions Qwen2Moe() {
  return With(Small("qwen2moe"), [](TinyModelOptions& o) {
    o.is_tied = false;
    o.experts = {
        .count = 8, .used = 3, .feed_forward = 64, .shared = 1, .shared_feed_forward = 160};
  });
}

// Heads of another size than hidden / heads.
TinyModelOptions Qwen3(std::string architecture) {
  return With(Small(std::move(architecture)), [](TinyModelOptions& o) {
    o.head_dim = o.rope_dims = 64;
    o.rope_base = 1e6;
  });
}

TinyModelOptions Qwen3Moe() {
  return With(Qwen3("qwen3moe"), [](TinyModelOptions& o) {
    o.is_tied = false;
    o.experts = {.count = 8, .used = 3, .feed_forward = 64};
  });
}

TinyModelOptions Gemma2() {
  return With(Small("gemma2"), [](TinyModelOptions& o) {
    o.layers = 4;
    o.window = 24;
    o.attention_cap = 1.5;
    o.logit_cap = 2.0;
  });
}

// Its scale of attention is not one over the root of the head size, which only the number of layers
// says.
TinyModelOptions Gemma2Of27B() {
  return With(Gemma2(), [](TinyModelOptions& o) {
    o.layers = 46;
    o.hidden = 64;
    o.feed_forward = 64;
  });
}

// Five sliding layers, a full one, and a sliding one again.
TinyModelOptions Gemma3() {
  return With(Small("gemma3"), [](TinyModelOptions& o) {
    o.layers = 7;
    o.kv_heads = 1;
    o.head_dim = o.rope_dims = 64;
    o.rope_base = 1e6;
    o.window = 24;
  });
}

// As the larger ones: scaled positions on full layers; and all that may be said is said.
TinyModelOptions Gemma3Scaled() {
  return With(Gemma3(), [](TinyModelOptions& o) {
    o.layers = 4;
    o.kv_heads = 2;
    o.rope_scaling = "linear";
    o.rope_factor = 8.0;
    o.sliding_rope_base = 20000.0;
    o.window_pattern = {1, 0, 0, 1};
    o.logit_cap = 2.0;
  });
}

TinyModelOptions Phi3() {
  return With(Small("phi3"), [](TinyModelOptions& o) {
    o.kv_heads = o.heads;
    o.is_tied = false;
    o.original_context = o.context;
  });
}

TinyModelOptions Phi3Long() {
  return With(Phi3(), [](TinyModelOptions& o) {
    o.has_rope_factors = true;
    o.original_context = 512;
  });
}

TinyModelOptions Phi4Mini() {
  return With(Phi3Long(), [](TinyModelOptions& o) {
    o.hidden = 256;
    o.kv_heads = 2;
    o.head_dim = 64;
    o.rope_dims = 48;
    o.is_tied = true;
  });
}

TinyModelOptions Falcon() {
  return With(Small("falcon"), [](TinyModelOptions& o) {
    o.feed_forward = 4 * o.hidden;
    o.kv_heads = 1;
    o.is_tied = false;
  });
}

TinyModelOptions Gpt2() {
  return With(Small("gpt2"), [](TinyModelOptions& o) {
    o.feed_forward = 4 * o.hidden;
    o.kv_heads = o.heads;
    o.context = 512;
  });
}

// As DeepSeek-V2-Lite.
TinyModelOptions DeepSeek() {
  return With(Small("deepseek2"), [](TinyModelOptions& o) {
    o.kv_heads = o.heads;
    o.head_dim = 96;
    o.is_tied = false;
    o.rope_scaling = "yarn";
    o.rope_factor = 8.0;
    o.yarn_log_multiplier = 0.0707;
    o.experts = {.count = 8,
                 .used = 3,
                 .feed_forward = 64,
                 .shared = 2,
                 .shared_feed_forward = 128,
                 .leading_dense = 1,
                 .weights_scale = 1.5};
    o.latent = {.kv_rank = 64, .value_dim = 32};
  });
}

// As DeepSeek-V3, but for its groups of experts.
TinyModelOptions DeepSeekQRank() {
  return With(DeepSeek(), [](TinyModelOptions& o) {
    o.experts.weights_scale = 2.5;
    o.experts.has_weights_norm = true;
    o.experts.is_sigmoid = true;
    o.latent.q_rank = 96;
  });
}

TinyModelOptions GptOss() {
  return With(Small("gpt-oss"), [](TinyModelOptions& o) {
    o.layers = 4;
    o.feed_forward = 64;
    o.head_dim = o.rope_dims = 64;
    o.context = 8192;
    o.original_context = 1024;
    o.is_tied = false;
    o.rope_base = 150000.0;
    o.rope_scaling = "yarn";
    o.rope_factor = 8.0;
    o.window = 24;
    o.experts = {.count = 8, .used = 4, .feed_forward = 64};
  });
}

TinyModelOptions In(DType dtype, TinyModelOptions options) {
  options.dtype = dtype;
  return options;
}

}  // namespace

const std::vector<NamedTinyModel>& AllTinyModels() {
  static const std::vector<NamedTinyModel> kModels = {
      {"plain", {}},
      {"untied", {.is_tied = false}},
      {"biases", {.has_biases = true}},
      {"mha", {.heads = 4, .kv_heads = 4}},
      {"mqa", {.heads = 4, .kv_heads = 1}},
      {"wide-heads", {.heads = 4, .kv_heads = 2, .head_dim = 128, .rope_dims = 128}},
      {"odd-heads", {.heads = 3, .kv_heads = 3, .head_dim = 80, .rope_dims = 80}},
      {"partial-rope", {.rope_dims = 32}},
      {"rope-linear", {.rope_scaling = "linear"}},
      {"rope-llama3", {.has_rope_divisors = true}},
      {"rope-yarn", {.rope_scaling = "yarn"}},
      {"qwen2", {.architecture = "qwen2"}},
      {"f16", {.dtype = DType::kF16}},
      {"bf16", {.dtype = DType::kBF16}},
      {"q4_0", {.dtype = DType::kQ4_0}},
      {"q4_1", {.dtype = DType::kQ4_1}},
      {"q5_0", {.dtype = DType::kQ5_0}},
      {"q5_1", {.dtype = DType::kQ5_1}},
      {"q8_0", {.dtype = DType::kQ8_0}},
      {"q4_k", {.dtype = DType::kQ4_K}},
      {"q5_k", {.dtype = DType::kQ5_K}},
      {"q6_k", {.dtype = DType::kQ6_K}},
      {"q2_k", {.dtype = DType::kQ2_K}},
      {"q3_k", {.dtype = DType::kQ3_K}},
      {"iq4_nl", {.dtype = DType::kIQ4_NL}},
      {"mxfp4", {.dtype = DType::kMXFP4}},
      {"mixtral", Mixtral()},
      {"mixtral-q4_0", In(DType::kQ4_0, Mixtral())},
      {"mistral-window", With(Small("llama"), [](TinyModelOptions& o) { o.window = 24; })},
      {"qwen2moe", Qwen2Moe()},
      {"qwen3", Qwen3("qwen3")},
      {"qwen3moe", Qwen3Moe()},
      {"gemma", With(Small("gemma"), [](TinyModelOptions& o) { o.head_dim = o.rope_dims = 64; })},
      {"gemma2", Gemma2()},
      {"gemma2-27b", Gemma2Of27B()},
      {"gemma3", Gemma3()},
      {"gemma3-scaled", Gemma3Scaled()},
      {"phi3", Phi3()},
      {"phi3-window", With(Phi3(), [](TinyModelOptions& o) { o.window = 24; })},
      {"phi3-long", Phi3Long()},
      {"phi3-short", With(Phi3Long(), [](TinyModelOptions& o) { o.original_context = o.context; })},
      {"phi4-mini", Phi4Mini()},
      {"smollm3", With(Small("smollm3"), [](TinyModelOptions& o) { o.layers = 5; })},
      {"falcon", Falcon()},
      {"falcon-40b", With(Falcon(),
                          [](TinyModelOptions& o) {
                            o.kv_heads = 2;
                            o.has_second_norm = true;
                          })},
      {"gpt2", Gpt2()},
      {"deepseek2", DeepSeek()},
      {"deepseek2-q8_0", In(DType::kQ8_0, DeepSeek())},
      {"deepseek2-unsplit",
       With(DeepSeek(), [](TinyModelOptions& o) { o.latent.is_unsplit = true; })},
      {"deepseek2-q-rank", DeepSeekQRank()},
      {"gpt-oss", GptOss()},
      {"gpt-oss-f16", In(DType::kF16, GptOss())},
  };
  return kModels;
}

}  // namespace ashlar::model
