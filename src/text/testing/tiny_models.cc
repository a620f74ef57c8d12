#include "text/testing/tiny_models.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gguf/model_file.h"

namespace ashlar::text {
namespace {

std::string Utf8Of(unsigned code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

// GPT-2's spelling of a byte, worked out from its definition.
std::string Spell(unsigned byte) {
  const auto spells_itself = [](unsigned b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  if (spells_itself(byte)) return Utf8Of(byte);
  unsigned shifted = 0x100;
  for (unsigned b = 0; b < byte; ++b) shifted += spells_itself(b) ? 0 : 1;
  return Utf8Of(shifted);
}

std::string Spell(std::string_view bytes) {
  std::string spelled;
  for (const char c : bytes) spelled += Spell(static_cast<unsigned char>(c));
  return spelled;
}

}  // namespace

gguf::GgufWriter TinyBpe() {
  std::vector<std::string> tokens;
  tokens.reserve(300);
  for (unsigned byte = 0; byte < 256; ++byte) tokens.push_back(Spell(byte));
  for (const char* text :
       {"he", "ll", "hell", "hello", " hello", " w", "\xE2\x82\xAC", "\xE2\x82"}) {
    tokens.push_back(Spell(std::string_view(text)));
  }
  std::vector<std::int64_t> types(tokens.size(), 1);
  for (const char* text : {"<|bos|>", "<|im_end|>", "<|endoftext|>"}) {
    tokens.emplace_back(text);
    types.push_back(3);
  }
  for (const char* text : {"[tool]", "[tool][tool]"}) {
    tokens.emplace_back(text);
    types.push_back(4);
  }
  const std::string euro =
      Spell(std::string_view("\xE2\x82\xAC"));  // three characters of two bytes
  const std::vector<std::string> merges = {
      "h e",
      "l l",
      "he ll",
      "hell o",
      Spell(' ') + " hello",
      Spell(' ') + " w",
      euro.substr(0, 2) + " " + euro.substr(2, 2),
      euro.substr(0, 4) + " " + euro.substr(4, 2),
  };
  gguf::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "gpt2")
      .Set("tokenizer.ggml.pre", "gpt-2")
      .SetStrings("tokenizer.ggml.tokens", tokens)
      .SetIntegers("tokenizer.ggml.token_type", types)
      .SetStrings("tokenizer.ggml.merges", merges)
      .SetUnsigned("tokenizer.ggml.bos_token_id", 264)
      .SetUnsigned("tokenizer.ggml.eos_token_id", 265)
      .SetBool("tokenizer.ggml.add_bos_token", false);
  return writer;
}

gguf::GgufWriter TinySpm() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int64_t> types = {2, 3, 3};
  std::vector<double> scores = {0, 0, 0};
  for (unsigned byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
    scores.push_back(0);
  }
  const std::vector<std::pair<std::string, double>> pieces = {
      {"▁", -20}, {"a", -21},  {"b", -22}, {"ab", -1}, {"▁a", -2},
      {"ba", -4}, {"▁ab", -5}, {"€", -23}, {"aa", -3}, {"▁▁", -6}};
  for (const auto& [text, score] : pieces) {
    tokens.push_back(text);
    types.push_back(1);
    scores.push_back(score);
  }
  tokens.emplace_back("<tool>");
  types.push_back(4);
  scores.push_back(0);
  gguf::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "llama")
      .SetStrings("tokenizer.ggml.tokens", tokens)
      .SetIntegers("tokenizer.ggml.token_type", types)
      .SetFloats("tokenizer.ggml.scores", scores)
      .SetUnsigned("tokenizer.ggml.bos_token_id", 1)
      .SetUnsigned("tokenizer.ggml.eos_token_id", 2)
      .SetUnsigned("tokenizer.ggml.unknown_token_id", 0);
  return writer;
}

Result<std::unique_ptr<const Tokenizer>> CreateTokenizer(const gguf::GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.Build();
  ASHLAR_ASSIGN(const gguf::ModelFile file, gguf::ModelFile::Parse(bytes, "test"));
  return Tokenizer::Create(file);
}

std::unique_ptr<const Tokenizer> MustCreateTokenizer(const gguf::GgufWriter& writer) {
  return CreateTokenizer(writer).value();
}

}  // namespace ashlar::text
