// tokenize_lines MODEL.gguf: a filter between texts and token ids, for the scripts of this folder.
// Reads lines "e0 <hex of text>" (encode; plain), "e1 <hex>" (with special tokens added and
// recognised), "d <ids>" (decode, with special tokens); writes ids separated by spaces, or hex.
// Trusts its input.
#include <fmt/format.h>

#include <iostream>
#include <sstream>
#include <string>

#include "base/log.h"
#include "gguf/model_file.h"
#include "text/tokenizer.h"

namespace ashlar::text {
namespace {

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string EncodeLine(const Tokenizer& tokenizer, const std::string& hex, bool special) {
  const auto ids =
      tokenizer.Encode(FromHex(hex), {.add_special = special, .parse_special = special});
  return fmt::format("{}", fmt::join(ids, " "));
}

std::string DecodeLine(const Tokenizer& tokenizer, std::istream& line) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; line >> id;) ids.push_back(id);
  std::string hex;
  for (const char c : tokenizer.Decode(ids, true)) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return hex;
}

int Run(const char* path) {
  if (const auto log = InitLog({.level = "warning"}); !log.ok()) return 1;
  const auto file = gguf::ModelFile::Open(path);
  const auto tokenizer = file.ok() ? Tokenizer::Create(*file) : file.error();
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.error().message << '\n';
    return 1;
  }
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string what;
    std::string hex;
    line >> what;
    if (what == "d") {
      std::cout << DecodeLine(**tokenizer, line) << '\n';
    } else {
      line >> hex;
      std::cout << EncodeLine(**tokenizer, hex, what == "e1") << '\n';
    }
  }
  return 0;
}

}  // namespace
}  // namespace ashlar::text

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize_lines MODEL.gguf\n";
    return 2;
  }
  return ashlar::text::Run(argv[1]);
}
