// make_tokenizer_corpus FOLDER: writes the seed inputs of tokenizer_fuzz.
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/testing/gguf_writer.h"
#include "text/testing/tiny_models.h"

namespace ashlar::text {
namespace {

std::string FileSeed(const gguf::GgufWriter& writer) {
  const auto bytes = writer.Build();
  return std::string(1, '\0') +
         std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status WriteAll(const std::string& folder) {
  const std::string text =
      "I'll say hello, hello  12345\r\n\t<|im_end|>[tool][tool] \xE2\x82\xAC\xE2\x82\xFF ab aab "
      "<tool> </s>";
  const struct {
    const char* name;
    std::string bytes;
  } seeds[] = {
      {"file_bpe", FileSeed(TinyBpe())},
      {"file_spm", FileSeed(TinySpm())},
      {"vocabulary_bpe",
       "\x01"
       "1a\n1b\n1ab\n1abab\n3<|im_end|>\n4[x]\n1c\n+a b\n+ab ab\nabab[x]abc"},
      {"vocabulary_spm",
       "\x05"
       "2<unk>\n3<s>\n3</s>\n1a\n1b\n1ab\n1\xE2\x96\x81\n4 x\n1\xE2\x96\x81"
       "ab\n6<0x41>\nab a"},
      {"text_gpt2", "\x02" + text},
      {"text_llama3", "\x06" + text},
      {"text_spm", "\x0E" + text},
      {"text_spm_special", "\x1E" + text},
      {"text_default_special", "\x1A" + text},
  };
  for (const auto& seed : seeds) {
    ASHLAR_TRY(gguf::WriteBytes(folder + "/" + seed.name, std::as_bytes(std::span(seed.bytes))));
  }
  return {};
}

}  // namespace
}  // namespace ashlar::text

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_tokenizer_corpus FOLDER\n", stderr);
    return 2;
  }
  const auto written = ashlar::text::WriteAll(argv[1]);
  if (written.ok()) return 0;
  std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return 1;
}
