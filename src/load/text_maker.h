// Text of a wanted number of tokens, for any tokenizer, made of common words in random order. Two
// texts one after the other have as many tokens as both: each begins with a space.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::load {

// What texts are made of: 256 words of lower-case letters.
std::span<const std::string_view> CommonWords();
// " word word ..."
std::string Sentence(std::span<const std::string_view> words);

class TextMaker {
 public:
  // Each word, with its space, is one token: lengths are exact. Precondition: there are words.
  static TextMaker OfWords(std::vector<std::string_view> words);
  // Lengths by measure: exact where a character is a token, close elsewhere. Precondition: above 0.
  static TextMaker OfCharacters(double tokens_per_character);

  // The same seed gives the same text; a shorter one is the beginning of a longer one.
  std::string Text(std::uint64_t seed, std::uint64_t tokens) const;
  bool is_exact() const { return tokens_per_character_ == 0; }

 private:
  static constexpr std::uint64_t kTextStream = 0x74657874;  // apart from the draws for arrivals

  TextMaker() = default;

  std::vector<std::string_view> words_;
  double tokens_per_character_ = 0;  // 0: a word is a token
};

}  // namespace ashlar::load
