#include "gguf/testing/sample_files.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"

namespace ashlar::gguf {
namespace {

std::vector<std::byte> RandomBytes(std::size_t count, std::uint64_t stream) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(RandomBits(1, stream, i) & 0xFF);
  }
  return bytes;
}

template <typename T>
void AddInteger(GgufWriter& writer, const std::string& name, ValueType type) {
  using Limits = std::numeric_limits<T>;
  // An array holds what fits an i64; the scalar goes to the type's own ends.
  const std::int64_t low =
      Limits::is_signed ? -static_cast<std::int64_t>(Limits::max()) - 1 : std::int64_t{0};
  const auto high = static_cast<std::int64_t>(
      std::min<std::uint64_t>(Limits::max(), std::numeric_limits<std::int64_t>::max()));
  if constexpr (Limits::is_signed) {
    writer.SetSigned("scalar." + name, low, type);
  } else {
    writer.SetUnsigned("scalar." + name, Limits::max(), type);
  }
  writer.SetIntegers("array." + name, std::vector<std::int64_t>{low, 7, high}, type);
}

}  // namespace

GgufWriter SmallModel() {
  constexpr std::uint64_t vocab = 8;
  GgufWriter writer;
  writer.Set("general.architecture", "llama")
      .Set("general.name", "tiny")
      .SetUnsigned("llama.block_count", 2)
      .SetUnsigned("llama.context_length", 128)
      .SetUnsigned("llama.embedding_length", 32)
      .SetUnsigned("llama.attention.head_count", 4)
      .SetUnsigned("llama.attention.head_count_kv", 2)
      .SetFloat("llama.attention.layer_norm_rms_epsilon", 1e-5)
      .SetFloat("llama.rope.freq_base", 10000.0)
      .Set("tokenizer.ggml.model", "gpt2")
      .SetStrings("tokenizer.ggml.tokens",
                  std::vector<std::string>{"<s>", "</s>", "a", "b", "ab", "\xC4\xA0",
                                           "\xE2\x82\xAC", "\xFF"})
      .SetFloats("tokenizer.ggml.scores", std::vector<double>(vocab, -0.5))
      .SetIntegers("tokenizer.ggml.token_type", std::vector<std::int64_t>{3, 3, 1, 1, 1, 1, 1, 6})
      .SetStrings("tokenizer.ggml.merges", std::vector<std::string>{"a b"})
      .SetUnsigned("tokenizer.ggml.bos_token_id", 0)
      .SetBool("tokenizer.ggml.add_bos_token", true);
  const std::vector<float> norm(32, 1.0f);
  writer.AddFloats("token_embd.weight", {32, vocab}, std::vector<float>(32 * vocab, 0.25f));
  writer.AddFloats("output_norm.weight", {32}, norm);
  for (const char* block : {"blk.0.", "blk.1."}) {
    writer.AddFloats(std::string(block) + "attn_norm.weight", {32}, norm);
  }
  for (const DTypeInfo& info : AllDTypes()) {
    const std::uint64_t columns = info.block_elements;
    const std::vector<std::byte> rows =
        RandomBytes(2 * info.block_bytes, static_cast<std::uint64_t>(info.dtype));
    writer.AddTensor("blk.0." + std::string(info.name) + ".weight", {columns, 2}, info.dtype, rows);
  }
  return writer;
}

GgufWriter EveryValueType() {
  GgufWriter writer;
  AddInteger<std::uint8_t>(writer, "u8", ValueType::kU8);
  AddInteger<std::int8_t>(writer, "i8", ValueType::kI8);
  AddInteger<std::uint16_t>(writer, "u16", ValueType::kU16);
  AddInteger<std::int16_t>(writer, "i16", ValueType::kI16);
  AddInteger<std::uint32_t>(writer, "u32", ValueType::kU32);
  AddInteger<std::int32_t>(writer, "i32", ValueType::kI32);
  AddInteger<std::uint64_t>(writer, "u64", ValueType::kU64);
  AddInteger<std::int64_t>(writer, "i64", ValueType::kI64);
  writer.SetFloat("scalar.f32", 1.5, ValueType::kF32)
      .SetFloat("scalar.f64", -0.1, ValueType::kF64)
      .SetFloats("array.f32", std::vector<double>{-2.5, 0.0}, ValueType::kF32)
      .SetFloats("array.f64", std::vector<double>{0.1, 1e300}, ValueType::kF64)
      .SetBool("scalar.false", false)
      .SetBool("scalar.true", true)
      .SetIntegers("array.bool", std::vector<std::int64_t>{1, 0, 1}, ValueType::kBool)
      .Set("scalar.string", "text")
      .Set("empty.string", "")
      .SetStrings("array.strings", std::vector<std::string>{"", "one", "\xFF not UTF-8"})
      .SetStrings("empty.strings", {})
      .SetIntegers("empty.integers", {})
      .SetFloats("empty.floats", {});
  return writer;
}

}  // namespace ashlar::gguf
