#include "load/text_maker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::load {
namespace {

// English words that the vocabularies of common models have whole, with their space.
constexpr std::string_view kWords =
    "above across add age air along always any appear around art autumn baby bad ball bank base "
    "beat "
    "before began behind bird board boy break broken call came case chance check city clean cloth "
    "cloud coat color compare contain control corn could course cry danger dark dear divide drop "
    "dry "
    "during early eat edge egg eight enemy enter event example except expect face family fear feed "
    "field final finger fish five floor flow fly follow foot forest forward found four free fresh "
    "gentle grand great green group guide hear heavy high hot huge idea imagine instant iron job "
    "keep "
    "kill king know lake law learn least lift light look lost loud love low make mark meat melody "
    "might mind mix modern money moon most mouth music must name natural next night noun number "
    "observe often oil only our out paint pair path perhaps period phrase picture plan plane "
    "planet "
    "post prepare press product proper pull quart quiet radio raise ran reach read real receive "
    "record red region repeat reply require result ride ring road roll rope rub saw say scale "
    "school "
    "sea second see seed seem segment select sell set share shell shine show side simple single "
    "sit "
    "skill sky snow soon sound special speed spring stand star start steel string subject success "
    "suffix suggest suit summer swim tail take tall teach tell ten test thank then those told tone "
    "top town trip truck unit until usual valley vary village vowel walk wave weather white whole "
    "wind window winter wish with woman word wrong yard yellow";
constexpr std::size_t kWordCount = 256;

std::vector<std::string_view> SplitWords() {
  std::vector<std::string_view> words;
  words.reserve(kWordCount);
  for (std::size_t at = 0; at < kWords.size();) {
    const std::size_t end = std::min(kWords.find(' ', at), kWords.size());
    words.push_back(kWords.substr(at, end - at));
    at = end + 1;
  }
  ASHLAR_CHECK(words.size() == kWordCount, "{} words", words.size());
  return words;
}

}  // namespace

std::span<const std::string_view> CommonWords() {
  static const std::vector<std::string_view> kList = SplitWords();
  return kList;
}

std::string Sentence(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    text += ' ';
    text += word;
  }
  return text;
}

TextMaker TextMaker::OfWords(std::vector<std::string_view> words) {
  ASHLAR_CHECK(!words.empty(), "no words");
  TextMaker maker;
  maker.words_ = std::move(words);
  return maker;
}

TextMaker TextMaker::OfCharacters(double tokens_per_character) {
  ASHLAR_CHECK(tokens_per_character > 0, "{}", tokens_per_character);
  TextMaker maker;
  maker.words_.assign(CommonWords().begin(), CommonWords().end());
  maker.tokens_per_character_ = tokens_per_character;
  return maker;
}

std::string TextMaker::Text(std::uint64_t seed, std::uint64_t tokens) const {
  std::string text;
  const auto add_word = [&](std::uint64_t index) {
    text += ' ';
    text += words_[RandomBits(seed, kTextStream, index) % words_.size()];
  };
  if (is_exact()) {
    for (std::uint64_t i = 0; i < tokens; ++i) add_word(i);
    return text;
  }
  const auto characters = static_cast<std::size_t>(
      std::max(1.0, std::round(static_cast<double>(tokens) / tokens_per_character_)));
  for (std::uint64_t i = 0; text.size() < characters; ++i) add_word(i);
  text.resize(characters);
  return text;
}

}  // namespace ashlar::load
