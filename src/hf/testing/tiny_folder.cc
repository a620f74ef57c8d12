#include "hf/testing/tiny_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gguf/model_file.h"
#include "gguf/testing/gguf_writer.h"
#include "hf/family.h"
#include "hf/testing/safetensors_writer.h"

namespace ashlar::hf {
namespace {

using Json = nlohmann::ordered_json;
using model::TinyModelOptions;

std::string TypeOf(const TinyModelOptions& o) {
  if (o.architecture == "llama") {
    return o.experts.count > 0 ? "mixtral" : o.window > 0 ? "mistral" : "llama";
  }
  const std::map<std::string, std::string> names = {{"qwen2moe", "qwen2_moe"},
                                                    {"qwen3moe", "qwen3_moe"},
                                                    {"gemma3", "gemma3_text"},
                                                    {"deepseek2", "deepseek_v2"}};
  const auto found = names.find(o.architecture);
  if (o.architecture == "deepseek2" && o.experts.is_sigmoid) return "deepseek_v3";
  return found == names.end() ? o.architecture : found->second;
}

Json RopeOf(const TinyModelOptions& o) {
  const std::uint32_t original = o.original_context > 0 ? o.original_context : o.context / 4;
  if (o.has_rope_factors) {
    std::vector<float> long_factor(o.rope_dims / 2, 12.0f);
    std::vector<float> short_factor(o.rope_dims / 2, 1.5f);
    std::fill_n(long_factor.begin(), o.rope_dims / 4, 1.0f);
    std::fill_n(short_factor.begin(), o.rope_dims / 4, 1.0f);
    return {{"type", "longrope"}, {"long_factor", long_factor}, {"short_factor", short_factor}};
  }
  if (o.rope_scaling == "none") return nullptr;
  Json rope = {{"type", o.rope_scaling}, {"factor", o.rope_factor}};
  if (o.rope_scaling == "yarn") rope["original_max_position_embeddings"] = original;
  if (o.yarn_log_multiplier > 0) {
    rope["mscale"] = rope["mscale_all_dim"] = o.yarn_log_multiplier * 10.0;
  }
  return rope;
}

void SetExperts(const TinyModelOptions& o, Json& config) {
  const model::TinyExperts& experts = o.experts;
  if (experts.count == 0) return;
  const bool is_deepseek = o.architecture == "deepseek2";
  config[is_deepseek                 ? "n_routed_experts"
         : o.architecture == "llama" ? "num_local_experts"
                                     : "num_experts"] = experts.count;
  config["num_experts_per_tok"] = experts.used;
  if (o.architecture != "llama") config["moe_intermediate_size"] = experts.feed_forward;
  if (o.architecture == "qwen2moe") {
    config["shared_expert_intermediate_size"] = experts.shared_feed_forward;
  }
  if (!is_deepseek) return;
  config["n_shared_experts"] = experts.shared;
  config["first_k_dense_replace"] = experts.leading_dense;
  config["routed_scaling_factor"] = experts.weights_scale;
  config["norm_topk_prob"] = experts.has_weights_norm;
}

void SetLatent(const TinyModelOptions& o, Json& config) {
  config["kv_lora_rank"] = o.latent.kv_rank;
  config["q_lora_rank"] = o.latent.q_rank > 0 ? Json(o.latent.q_rank) : Json(nullptr);
  config["qk_nope_head_dim"] = o.head_dim - o.rope_dims;
  config["qk_rope_head_dim"] = o.rope_dims;
  config["v_head_dim"] = o.latent.value_dim;
}

Json Gpt2Config(const TinyModelOptions& o) {
  return {{"model_type", "gpt2"},
          {"n_embd", o.hidden},
          {"n_layer", o.layers},
          {"n_head", o.heads},
          {"n_positions", o.context},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5}};
}

Json FalconConfig(const TinyModelOptions& o) {
  return {{"model_type", "falcon"},
          {"hidden_size", o.hidden},
          {"num_hidden_layers", o.layers},
          {"num_attention_heads", o.heads},
          {"num_kv_heads", o.kv_heads},
          {"multi_query", true},
          {"new_decoder_architecture", o.has_second_norm},
          {"parallel_attn", true},
          {"alibi", false},
          {"layer_norm_epsilon", 1e-5}};
}

Json ConfigOf(const TinyModelOptions& o) {
  const std::string type = TypeOf(o);
  if (type == "gpt2") return Gpt2Config(o);
  if (type == "falcon") return FalconConfig(o);
  const bool is_gemma = type.starts_with("gemma");
  Json config = {{"model_type", type},
                 {"vocab_size", model::kTinyVocab},
                 {"num_hidden_layers", o.layers},
                 {"hidden_size", o.hidden},
                 {"intermediate_size", o.feed_forward},
                 {"num_attention_heads", o.heads},
                 {"num_key_value_heads", o.kv_heads},
                 {"head_dim", o.head_dim},
                 {"max_position_embeddings", o.context},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", is_gemma && type != "gemma3_text" ? 10000.0 : o.rope_base},
                 {"rope_scaling", RopeOf(o)},
                 {"sliding_window", o.window > 0 ? Json(o.window) : Json(nullptr)},
                 {"hidden_act", is_gemma ? "gelu_pytorch_tanh" : "silu"},
                 {"tie_word_embeddings", o.is_tied}};
  if (o.original_context > 0) config["original_max_position_embeddings"] = o.original_context;
  if (o.sliding_rope_base > 0) config["rope_local_base_freq"] = o.sliding_rope_base;
  if (o.attention_cap > 0) config["attn_logit_softcapping"] = o.attention_cap;
  if (o.logit_cap > 0) config["final_logit_softcapping"] = o.logit_cap;
  if (o.rope_dims != o.head_dim && o.latent.kv_rank == 0) {
    config["partial_rotary_factor"] = static_cast<double>(o.rope_dims) / o.head_dim;
  }
  for (const std::int64_t slides : o.window_pattern) {
    config["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
  }
  SetExperts(o, config);
  if (o.latent.kv_rank > 0) SetLatent(o, config);
  return config;
}

Json TokenizerOf(const gguf::ModelFile& file) {
  const auto texts = file.Strings("tokenizer.ggml.tokens").value();
  const auto types = file.Integers("tokenizer.ggml.token_type").value();
  Json vocab = Json::object();
  Json added = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    vocab[std::string(texts[i])] = i;
    if (types[i] != 3) continue;
    added.push_back({{"id", i}, {"content", std::string(texts[i])}, {"special", true}});
  }
  return {{"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Digits"}, {"individual_digits", true}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}}},
          {"post_processor", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

// The inverse of the family's table.
std::string TheirModule(const Family& family, std::string_view ours) {
  std::string layer;
  std::string_view rest = ours;
  if (ours.starts_with("blk.")) {
    const std::size_t dot = ours.find('.', 4);
    layer = ours.substr(4, dot - 4);
    rest = ours.substr(dot + 1);
  }
  std::string general(rest);
  std::string expert;
  if (const std::size_t dot = general.find('.'); dot != std::string::npos) {
    expert = general.substr(dot + 1);
    general = general.substr(0, dot + 1) + "#";
  }
  // Where families share a table, only some of its rows are theirs.
  const std::string_view wanted = family.model_type == "mixtral" ? "block_sparse_moe." : "mlp.";
  for (const ModuleName& module : layer.empty() ? family.whole : family.layer) {
    if (module.ours != general) continue;
    if (general.find('#') != general.npos || general == "ffn_gate_inp") {
      if (!module.theirs.starts_with(wanted)) continue;
    }
    std::string name(module.theirs);
    if (const std::size_t at = name.find('#'); at != name.npos) name.replace(at, 1, expert);
    const bool is_old = family.model_type == "gpt2" || family.model_type == "falcon";
    if (layer.empty())
      return general == "output" ? name : (is_old ? "transformer." : "model.") + name;
    return (is_old ? "transformer.h." : "model.layers.") + layer + "." + name;
  }
  ASHLAR_CHECK(false, "{} has no {}", family.model_type, ours);
}

// One tensor on its way.
struct Moved {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> data;
};

class TensorMover {
 public:
  TensorMover(const TinyModelOptions& options, const Family& family)
      : options_(options), family_(family) {}

  void Move(const gguf::Tensor& tensor) {
    std::string name(tensor.name);
    if (name.starts_with("rope_f")) return;  // config.json has numbers in their place
    const std::size_t dot = name.rfind('.');
    std::string ours = name.substr(0, dot);
    const std::string leaf = name.substr(dot + 1);
    if (name.ends_with("exp_probs_b.bias")) {
      const std::string router = ours.substr(0, ours.rfind('.')) + ".ffn_gate_inp";
      return Put(TheirModule(family_, router) + ".e_score_correction_bias", tensor, tensor.data,
                 {tensor.dims[0]});
    }
    if (family_.model_type == "falcon" && options_.has_second_norm && ours.ends_with("attn_norm")) {
      return Put(
          fmt::format("transformer.h.{}.ln_mlp.{}", ours.substr(4, ours.find('.', 4) - 4), leaf),
          tensor, tensor.data, {tensor.dims[0]});
    }
    if (ours.ends_with("_exps")) return MoveExperts(tensor, ours.substr(0, ours.size() - 5), leaf);
    Put(TheirModule(family_, ours) + "." + leaf, tensor, Reordered(tensor, ours),
        ShapeOf(tensor, ours));
  }
  std::vector<Moved>& moved() { return moved_; }

 private:
  void Put(std::string name, const gguf::Tensor& tensor, std::span<const std::byte> data,
           std::vector<std::uint64_t> shape) {
    moved_.push_back({std::move(name),
                      std::string(NameOf(tensor.dtype)),
                      std::move(shape),
                      {data.begin(), data.end()}});
  }
  void MoveExperts(const gguf::Tensor& tensor, const std::string& ours, const std::string& leaf) {
    const std::size_t bytes = tensor.data.size() / tensor.dims.back();
    for (std::uint64_t e = 0; e < tensor.dims.back(); ++e) {
      Put(TheirModule(family_, fmt::format("{}.{}", ours, e)) + "." + leaf, tensor,
          tensor.data.subspan(e * bytes, bytes), {tensor.dims[1], tensor.dims[0]});
    }
  }
  std::vector<std::uint64_t> ShapeOf(const gguf::Tensor& tensor, const std::string& ours) const {
    std::vector<std::uint64_t> shape(tensor.dims.rbegin(), tensor.dims.rend());
    if (ours.ends_with("ffn_gate_inp_shexp")) shape.insert(shape.begin(), 1);
    if (IsTransposed(tensor, ours)) std::swap(shape[0], shape[1]);
    return shape;
  }
  bool IsTransposed(const gguf::Tensor& tensor, const std::string& ours) const {
    return family_.model_type == "gpt2" && ours.starts_with("blk.") && tensor.dims.size() == 2;
  }

  // The data in their order. `count` rows (of a vector: elements) move from `from(i)` to i.
  std::vector<std::byte> Reordered(const gguf::Tensor& tensor, const std::string& ours) const {
    std::vector<std::byte> data(tensor.data.begin(), tensor.data.end());
    const bool is_vector = tensor.dims.size() == 1;
    const std::uint64_t rows = is_vector ? tensor.dims[0] : tensor.dims[1];
    const std::size_t bytes = data.size() / rows;
    const auto gather = [&](auto from) {
      for (std::uint64_t i = 0; i < rows; ++i) {
        std::copy_n(tensor.data.begin() + static_cast<std::ptrdiff_t>(from(i) * bytes), bytes,
                    data.begin() + static_cast<std::ptrdiff_t>(i * bytes));
      }
    };
    const std::uint64_t dim = options_.head_dim;
    if (family_.permutes_heads && (ours.ends_with("attn_q") || ours.ends_with("attn_k"))) {
      // Pairs (2 i, 2 i + 1) become (i, i + dim / 2).
      gather([&](std::uint64_t i) {
        const std::uint64_t channel = i % dim;
        return i / dim * dim + channel % (dim / 2) * 2 + channel / (dim / 2);
      });
    } else if (options_.has_second_norm && ours.ends_with("attn_qkv")) {
      const std::uint64_t group = options_.heads / options_.kv_heads;
      gather([&](std::uint64_t i) {
        const std::uint64_t head = i / dim;
        const std::uint64_t kv = head / (group + 2);
        const std::uint64_t part = head % (group + 2);
        const std::uint64_t from = part < group
                                       ? kv * group + part
                                       : options_.heads + (part - group) * options_.kv_heads + kv;
        return from * dim + i % dim;
      });
    } else if (IsTransposed(tensor, ours)) {
      const std::uint64_t columns = tensor.dims[0];
      const std::size_t element = bytes / columns;
      for (std::uint64_t i = 0; i < rows * columns; ++i) {
        std::copy_n(tensor.data.begin() + static_cast<std::ptrdiff_t>(i * element), element,
                    data.begin() +
                        static_cast<std::ptrdiff_t>((i % columns * rows + i / columns) * element));
      }
    } else if (family_.raises_norms && is_vector && ours.ends_with("norm")) {
      std::vector<float> values(rows);
      std::memcpy(values.data(), data.data(), data.size());
      for (float& value : values) value -= 1.0f;
      std::memcpy(data.data(), values.data(), data.size());
    }
    return data;
  }

  const TinyModelOptions& options_;
  const Family& family_;
  std::vector<Moved> moved_;
};

std::string ShardName(std::size_t number, std::size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, count);
}

Status WriteWeights(std::span<const Moved> tensors, std::size_t shards, const std::string& path) {
  Json map = Json::object();
  for (std::size_t shard = 0; shard < shards; ++shard) {
    SafetensorsWriter writer;
    writer.header()["__metadata__"] = {{"format", "pt"}};
    const std::string name = shards == 1 ? "model.safetensors" : ShardName(shard, shards);
    for (std::size_t i = shard; i < tensors.size(); i += shards) {
      writer.Add(tensors[i].name, tensors[i].dtype, tensors[i].shape, tensors[i].data);
      map[tensors[i].name] = name;
    }
    ASHLAR_TRY(gguf::WriteBytes(path + "/" + name, writer.Build()));
  }
  if (shards == 1) return {};
  return WriteText(path + "/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

}  // namespace

bool CanBeFolder(const TinyModelOptions& o) {
  const bool is_quantised =
      o.dtype != DType::kF32 && o.dtype != DType::kF16 && o.dtype != DType::kBF16;
  const bool is_partial = o.architecture == "llama" && o.rope_dims != o.head_dim;
  const bool is_new_latent = o.latent.kv_rank > 0 && !o.latent.is_unsplit;
  return !is_quantised && !is_partial && !is_new_latent && !o.has_rope_divisors &&
         FindFamily(TypeOf(o)) != nullptr;
}

TinyFolder TinyFolderOf(const TinyModelOptions& options) {
  const std::vector<std::byte> bytes = model::MakeTinyModel(options).Build();
  const auto file = gguf::ModelFile::Parse(bytes, "tiny");
  ASHLAR_CHECK(file.ok(), "{}", file.error().message);
  return {.config = ConfigOf(options),
          .tokenizer = TokenizerOf(*file),
          .tokenizer_config = {
              {"bos_token", "<|endoftext|>"},
              {"eos_token", {{"content", "<|im_end|>"}}},
              {"chat_template", std::string(file->String("tokenizer.chat_template").value())}}};
}

Status WriteTinyFolder(const TinyFolder& folder, const TinyModelOptions& options,
                       const std::string& path) {
  const std::vector<std::byte> bytes = model::MakeTinyModel(options).Build();
  ASHLAR_ASSIGN(const auto file, gguf::ModelFile::Parse(bytes, "tiny"));
  const Family* const family = FindFamily(TypeOf(options));
  ASHLAR_CHECK(family != nullptr && CanBeFolder(options), "{}", options.architecture);
  TensorMover mover(options, *family);
  for (const gguf::Tensor& tensor : file.tensors()) mover.Move(tensor);
  ASHLAR_TRY(WriteText(path + "/config.json", folder.config.dump()));
  ASHLAR_TRY(WriteText(path + "/tokenizer.json", folder.tokenizer.dump()));
  ASHLAR_TRY(WriteText(path + "/tokenizer_config.json", folder.tokenizer_config.dump()));
  return WriteWeights(mover.moved(), folder.shards, path);
}

}  // namespace ashlar::hf
