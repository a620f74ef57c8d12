#include "model/testing/tiny_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/half.h"
#include "base/ids.h"
#include "base/rng.h"

namespace ashlar::model {
namespace {

// Draws numbers in order; one per model.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t Bits() { return RandomBits(seed_, 0, next_++); }
  // About normal: the sum of four uniforms, standard deviation 1.
  float Normal() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += RandomUnit(seed_, 1, next_++);
    return static_cast<float>((sum - 2.0) * std::sqrt(3.0));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

void PutF16(std::byte* at, double value) {
  const std::uint16_t half = F32ToF16(static_cast<float>(value));
  std::memcpy(at, &half, sizeof(half));
}

// Random codes with scales that give values of about `deviation`, around zero. The offsets are
// those of each format's block layout.
void FillBlock(DType dtype, double deviation, Draw& draw, std::byte* block) {
  const std::uint32_t bytes = InfoOf(dtype).block_bytes;
  for (std::uint32_t i = 0; i < bytes; ++i) block[i] = static_cast<std::byte>(draw.Bits() & 0xFF);
  // The standard deviation of a uniform code of n levels is n / sqrt(12).
  const double four_bit = deviation / 4.6;
  const double five_bit = deviation / 9.2;
  switch (dtype) {
    case DType::kQ4_0:
      return PutF16(block, four_bit);
    case DType::kQ4_1:
      PutF16(block, four_bit);
      return PutF16(block + 2, -7.5 * four_bit);
    case DType::kQ5_0:
      return PutF16(block, five_bit);
    case DType::kQ5_1:
      PutF16(block, five_bit);
      return PutF16(block + 2, -15.5 * five_bit);
    case DType::kQ8_0:
      return PutF16(block, deviation / 74.0);
    case DType::kQ4_K:  // 6-bit sub-scales, 32 on average
      PutF16(block, four_bit / 32.0);
      return PutF16(block + 2, 7.5 * four_bit / 32.0);
    case DType::kQ5_K:
      PutF16(block, five_bit / 32.0);
      return PutF16(block + 2, 15.5 * five_bit / 32.0);
    case DType::kQ6_K:  // signed 8-bit sub-scales
      return PutF16(block + 208, deviation / (18.5 * 74.0));
    default:
      ASHLAR_CHECK(false, "{} has no blocks", NameOf(dtype));
  }
}

std::vector<std::byte> RandomMatrix(DType dtype, std::uint64_t elements, double deviation,
                                    Draw& draw) {
  std::vector<std::byte> bytes(*RowBytes(dtype, elements));
  const DTypeInfo& info = InfoOf(dtype);
  for (std::uint64_t at = 0; at < bytes.size(); at += info.block_bytes) {
    if (info.block_elements > 1) {
      FillBlock(dtype, deviation, draw, bytes.data() + at);
      continue;
    }
    const float value = draw.Normal() * static_cast<float>(deviation);
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + at, &value, sizeof(value));
    } else {
      const std::uint16_t half = dtype == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
      std::memcpy(bytes.data() + at, &half, sizeof(half));
    }
  }
  return bytes;
}

// The GPT-2 alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 onwards.
std::vector<std::string> ByteLevelTokens() {
  std::vector<std::string> tokens;
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const std::uint32_t code = is_printable ? byte : next++;
    std::string text;
    if (code < 0x80) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xC0 | (code >> 6)));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    tokens.push_back(std::move(text));
  }
  return tokens;
}

void AddVocabulary(gguf::GgufWriter& writer) {
  std::vector<std::string> tokens = ByteLevelTokens();
  for (const char* special : {"<|im_start|>", "<|im_end|>", "<|endoftext|>"})
    tokens.emplace_back(special);
  std::vector<std::int64_t> types(kTinyVocab, 1);  // 1 = normal, 3 = control
  for (TokenId special = kTinyImStart; special <= kTinyEndOfText; ++special) {
    types[static_cast<std::size_t>(special)] = 3;
  }
  writer.Set("tokenizer.ggml.model", "gpt2")
      .Set("tokenizer.ggml.pre", "smollm")
      .SetStrings("tokenizer.ggml.tokens", tokens)
      .SetIntegers("tokenizer.ggml.token_type", types)
      .SetStrings("tokenizer.ggml.merges", {})
      .SetUnsigned("tokenizer.ggml.bos_token_id", kTinyEndOfText)
      .SetUnsigned("tokenizer.ggml.eos_token_id", kTinyImEnd)
      .SetBool("tokenizer.ggml.add_bos_token", false)
      .Set(
          "tokenizer.chat_template",
          "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
}

void AddMetadata(gguf::GgufWriter& writer, const TinyModelOptions& o) {
  const auto key = [&](std::string_view name) { return o.architecture + "." + std::string(name); };
  writer.Set("general.architecture", o.architecture)
      .Set("general.name", "tiny random model")
      .SetUnsigned(key("block_count"), o.layers)
      .SetUnsigned(key("context_length"), o.context)
      .SetUnsigned(key("embedding_length"), o.hidden)
      .SetUnsigned(key("feed_forward_length"), o.feed_forward)
      .SetUnsigned(key("attention.head_count"), o.heads)
      .SetUnsigned(key("attention.head_count_kv"), o.kv_heads)
      .SetUnsigned(key("attention.key_length"), o.head_dim)
      .SetUnsigned(key("attention.value_length"), o.head_dim)
      .SetFloat(key("attention.layer_norm_rms_epsilon"), 1e-5)
      .SetFloat(key("rope.freq_base"), 10000.0)
      .SetUnsigned(key("rope.dimension_count"), o.rope_dims)
      .SetUnsigned(key("vocab_size"), kTinyVocab);
  if (o.rope_scaling != "none") {
    writer.Set(key("rope.scaling.type"), o.rope_scaling).SetFloat(key("rope.scaling.factor"), 4.0);
  }
  if (o.rope_scaling == "yarn") {
    writer.SetUnsigned(key("rope.scaling.original_context_length"), o.context / 4);
  }
}

}  // namespace

gguf::GgufWriter MakeTinyModel(const TinyModelOptions& o) {
  gguf::GgufWriter writer;
  AddMetadata(writer, o);
  AddVocabulary(writer);
  Draw draw(o.seed);
  const auto matrix = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    const double deviation = 1.0 / std::sqrt(static_cast<double>(columns));
    writer.AddTensor(name, {columns, rows}, o.dtype,
                     RandomMatrix(o.dtype, rows * columns, deviation, draw));
  };
  const auto vector = [&](const std::string& name, std::uint64_t size, float around,
                          float deviation) {
    std::vector<float> values(size);
    for (float& value : values) value = around + deviation * draw.Normal();
    writer.AddFloats(name, {size}, values);
  };
  const std::uint64_t query = std::uint64_t{o.heads} * o.head_dim;
  const std::uint64_t key_value = std::uint64_t{o.kv_heads} * o.head_dim;
  matrix("token_embd.weight", kTinyVocab, o.hidden);
  vector("output_norm.weight", o.hidden, 1.0f, 0.1f);
  if (!o.is_tied) matrix("output.weight", kTinyVocab, o.hidden);
  if (o.has_rope_divisors) {
    std::vector<float> divisors(o.rope_dims / 2);
    for (std::size_t i = 0; i < divisors.size(); ++i)
      divisors[i] = i < divisors.size() / 2 ? 1.0f : 8.0f;
    writer.AddFloats("rope_freqs.weight", {divisors.size()}, divisors);
  }
  for (std::uint32_t layer = 0; layer < o.layers; ++layer) {
    const std::string blk = fmt::format("blk.{}.", layer);
    const auto linear = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns) {
      matrix(blk + name + ".weight", rows, columns);
      if (o.has_biases) vector(blk + name + ".bias", rows, 0.0f, 0.2f);
    };
    vector(blk + "attn_norm.weight", o.hidden, 1.0f, 0.1f);
    linear("attn_q", query, o.hidden);
    linear("attn_k", key_value, o.hidden);
    linear("attn_v", key_value, o.hidden);
    linear("attn_output", o.hidden, query);
    vector(blk + "ffn_norm.weight", o.hidden, 1.0f, 0.1f);
    linear("ffn_gate", o.feed_forward, o.hidden);
    linear("ffn_up", o.feed_forward, o.hidden);
    linear("ffn_down", o.hidden, o.feed_forward);
  }
  return writer;
}

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
      {"qwen2", {.architecture = "qwen2", .has_biases = true}},
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
  };
  return kModels;
}

Result<TinyModelOptions> FindTinyModel(std::string_view name) {
  std::string names;
  for (const NamedTinyModel& model : AllTinyModels()) {
    if (model.name == name) return model.options;
    names += names.empty() ? "" : ", ";
    names += model.name;
  }
  return MakeError(ErrorCode::kInvalidArgument, "no tiny model is called '{}'; there are {}", name,
                   names);
}

}  // namespace ashlar::model
