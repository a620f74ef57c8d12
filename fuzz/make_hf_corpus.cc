// make_hf_corpus FOLDER writes the seeds of the hf fuzzer.
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/testing/gguf_writer.h"
#include "hf/testing/safetensors_writer.h"

namespace ashlar::hf {
namespace {

using Fields = nlohmann::ordered_json;

std::string TextOf(const SafetensorsWriter& writer) {
  const std::vector<std::byte> bytes = writer.Build();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An embedding table of 4 rows, and Q of 32 channels as `q` has it.
SafetensorsWriter Model() {
  const std::vector<std::byte> table(4 * 32 * 2, std::byte{1});
  SafetensorsWriter writer;
  writer.header()["__metadata__"] = {{"format", "pt"}};
  writer.Add("model.embed_tokens.weight", "F16", {4, 32}, table);
  return writer;
}

std::string Plain() {
  const std::vector<float> q(32 * 32, 0.5f);
  SafetensorsWriter writer = Model();
  writer.AddFloats("model.layers.0.self_attn.q_proj.weight", {32, 32}, q);
  writer.AddFloats("model.norm.weight", {32}, std::span(q).first(32));
  return TextOf(writer);
}

std::string Int4(bool is_awq) {
  const std::string name = "model.layers.0.self_attn.q_proj.";
  const std::vector<std::byte> words(32 * 32 / 2, std::byte{0x77});
  std::vector<std::byte> groups(32 * 4);
  SafetensorsWriter writer = Model();
  std::vector<std::uint64_t> shape = {4, 32};
  if (is_awq) shape = {32, 4};
  writer.Add(name + "qweight", "I32", shape, words);
  writer.Add(name + "qzeros", "I32", {1, 4}, std::span(words).first(16));
  writer.Add(name + "scales", "F16", {1, 32}, std::span(words).first(64));
  if (!is_awq) writer.Add(name + "g_idx", "I32", {32}, groups);
  return TextOf(writer);
}

Fields Config(const std::string& type) {
  return {{"model_type", type},      {"num_hidden_layers", 1},        {"hidden_size", 32},
          {"intermediate_size", 32}, {"num_attention_heads", 2},      {"num_key_value_heads", 1},
          {"head_dim", 16},          {"max_position_embeddings", 64}, {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},   {"tie_word_embeddings", true}};
}

std::string ModelSeed(const Fields& config, const std::string& tensors) {
  return "m" + config.dump() + std::string(1, '\0') + tensors;
}

std::vector<std::pair<std::string, std::string>> Seeds() {
  Fields scaled = Config("llama");
  scaled["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 1},
                            {"high_freq_factor", 4},
                            {"original_max_position_embeddings", 32}};
  Fields awq = Config("mistral");
  awq["quantization_config"] = {
      {"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}, {"version", "gemm"}};
  Fields gptq = Config("qwen2");
  gptq["quantization_config"] = {
      {"quant_method", "gptq"}, {"bits", 4}, {"group_size", -1}, {"sym", true}};
  Fields bytes = {
      {"model", {{"type", "BPE"}, {"vocab", {{"h", 0}, {"e", 1}, {"he", 2}}}, {"merges", {"h e"}}}},
      {"added_tokens", {{{"id", 3}, {"content", "<s>"}, {"special", true}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
  Fields pieces = {{"model",
                    {{"type", "BPE"},
                     {"unk_token", "<unk>"},
                     {"byte_fallback", true},
                     {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}}},
                     {"merges", Fields::parse(R"([["a", "b"]])")}}},
                   {"normalizer", {{"type", "Prepend"}, {"prepend", "▁"}}}};
  return {{"header", "h" + Plain()},
          {"index", R"(i{"weight_map": {"a": "model-00001-of-00002.safetensors"}})"},
          {"bytes", "t" + bytes.dump()},
          {"pieces", "t" + pieces.dump()},
          {"plain", ModelSeed(Config("gemma2"), Plain())},
          {"scaled", ModelSeed(scaled, Plain())},
          {"awq", ModelSeed(awq, Int4(true))},
          {"gptq", ModelSeed(gptq, Int4(false))}};
}

Status WriteAll(const std::string& folder) {
  for (const auto& [name, text] : Seeds()) ASHLAR_TRY(WriteText(folder + "/" + name, text));
  return {};
}

}  // namespace
}  // namespace ashlar::hf

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_hf_corpus FOLDER\n");
    return 2;
  }
  const ashlar::Status written = ashlar::hf::WriteAll(argv[1]);
  if (written.ok()) return 0;
  std::fprintf(stderr, "make_hf_corpus: %s\n", written.error().message.c_str());
  return 1;
}
