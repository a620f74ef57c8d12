#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "gguf/describe.h"
#include "text/utf8.h"

// Character classes, to be used inside [...]. Spelled out where PCRE2's own differ from those of
// the reference tokenizers, which follow Unicode 16: PCRE2's \s also matches U+180E, and Debian
// 12's PCRE2 knows Unicode 14, so what 15 and 16 added is listed. Tested over all code points.
#define SPACE                                                                                      \
  "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{" \
  "3000}"
#define LETTER                                                                           \
  "\\p{L}\\x{1C89}-\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}" \
  "\\x{10D4A}-\\x{10D65}\\x{10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}" \
  "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}"   \
  "\\x{113D3}\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}"  \
  "\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}"            \
  "\\x{16D40}-\\x{16D6C}\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}"             \
  "\\x{1E030}-\\x{1E06D}\\x{1E4D0}-\\x{1E4EB}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}"  \
  "\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define NUMBER                                                                                 \
  "\\p{N}\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}" \
  "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}"       \
  "\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"
#define PUNCTUATION                                                                        \
  "\\p{P}\\x{1B4E}-\\x{1B4F}\\x{1B7F}\\x{10D6E}\\x{113D4}-\\x{113D5}\\x{113D7}-\\x{113D8}" \
  "\\x{11B00}-\\x{11B09}\\x{11BE1}\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}"

namespace ashlar::text {
namespace {

// GPT-2's: contractions, words with the space before them, numbers, punctuation, white space.
constexpr const char* kGpt2 =
    "'(?:s|t|re|ve|m|ll|d)"
    "| ?[" LETTER
    "]+"
    "| ?[" NUMBER
    "]+"
    "| ?[^" SPACE LETTER NUMBER
    "]+"
    "|[" SPACE "]+(?![^" SPACE
    "])"
    "|[" SPACE "]+";

// Every number character alone, then GPT-2's cut of what lies between. In one expression: the end
// of a piece, where white space is not held back for the next word, is the end of the text or a
// number.
constexpr const char* kDigitsThenGpt2 = "[" NUMBER
                                        "]"
                                        "|'(?:s|t|re|ve|m|ll|d)"
                                        "| ?[" LETTER
                                        "]+"
                                        "| ?[^" SPACE LETTER NUMBER
                                        "]+"
                                        "|[" SPACE "]+(?![^" SPACE NUMBER
                                        "])"
                                        "|[" SPACE "]+";

// Contractions in any case, words with one odd character before them, line ends apart from spaces.
// They differ in how many number characters stay together.
#define WORDS_AND_LINES(NUMBERS)                      \
  "(?i:'(?:s|t|re|ve|m|ll|d))"                        \
  "|[^\\r\\n" LETTER NUMBER "]?[" LETTER              \
  "]+"                                                \
  "|[" NUMBER "]" NUMBERS "| ?[^" SPACE LETTER NUMBER \
  "]+[\\r\\n]*"                                       \
  "|[" SPACE                                          \
  "]*[\\r\\n]+"                                       \
  "|[" SPACE "]+(?![^" SPACE                          \
  "])"                                                \
  "|[" SPACE "]+"
constexpr const char* kLlama3 = WORDS_AND_LINES("{1,3}");
constexpr const char* kQwen2 = WORDS_AND_LINES("");

struct Cut {
  std::string_view name;
  std::span<const char* const> stages;
  bool keeps_whole_words = false;
  bool adds_bos = false;
};

constexpr std::array kGpt2Stages = {kGpt2};
constexpr std::array kDigitsThenGpt2Stages = {kDigitsThenGpt2};
constexpr std::array kLlama3Stages = {kLlama3};
constexpr std::array kQwen2Stages = {kQwen2};
// For files that do not say how they were trained.
constexpr std::array kDefaultStages = {"[" PUNCTUATION "$+<=>^~|]+", kGpt2, "[" NUMBER "]+",
                                       "[0-9][0-9][0-9]"};

// The names that model files use, in the order that the error message lists them.
constexpr std::array<Cut, 19> kCuts = {{
    {"default", kDefaultStages},
    {"gpt-2", kGpt2Stages},
    {"phi-2", kGpt2Stages},
    {"mpt", kGpt2Stages},
    {"olmo", kGpt2Stages},
    {"llama-bpe", kLlama3Stages, true, true},
    {"llama3", kLlama3Stages, true, true},
    {"llama-v3", kLlama3Stages, true, true},
    {"dbrx", kLlama3Stages},
    {"smaug-bpe", kLlama3Stages},
    {"qwen2", kQwen2Stages},
    {"deepseek-r1-qwen", kQwen2Stages},
    {"stablelm2", kQwen2Stages},
    {"smollm", kDigitsThenGpt2Stages},
    {"starcoder", kDigitsThenGpt2Stages},
    {"refact", kDigitsThenGpt2Stages},
    {"command-r", kDigitsThenGpt2Stages},
    {"codeshell", kDigitsThenGpt2Stages},
    {"exaone", kDigitsThenGpt2Stages},
}};

// `text` with every byte that is not part of a code point replaced by one that no class holds, or
// nothing when there is none. The length stays, so positions hold for both.
std::optional<std::string> MaskInvalid(std::string_view text) {
  constexpr char kMask = '\x01';
  std::size_t position = WholePrefix(text);
  if (position == text.size()) return std::nullopt;
  std::string masked(text);
  while (position < text.size()) {
    const std::size_t bytes = FirstSequence(text.substr(position)).bytes;
    std::fill_n(masked.begin() + static_cast<std::ptrdiff_t>(position), bytes, kMask);
    position += bytes;
    position += WholePrefix(text.substr(position));
  }
  return masked;
}

}  // namespace

// One compiled expression.
class PreTokenizer::Expression {
 public:
  explicit Expression(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    ASHLAR_CHECK(code_ != nullptr, "PCRE2 error {} at {} of '{}'", error, offset, pattern);
    // Without JIT (some systems forbid writable code) matching is slower, not different.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    context_.reset(pcre2_match_context_create(nullptr));
    ASHLAR_CHECK(context_ != nullptr, "out of memory");
    // The interpreter's limits are for expressions from strangers; ours need no more than a step
    // per byte.
    pcre2_set_match_limit(context_.get(), 0xFFFFFFFF);
    pcre2_set_heap_limit(context_.get(), 0xFFFFFFFF);
  }

  // Appends matches and gaps of `piece`, valid UTF-8.
  void Split(std::string_view piece, std::vector<std::string_view>& out) const {
    const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create(1, nullptr));
    ASHLAR_CHECK(match != nullptr, "out of memory");
    const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(match.get());
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    std::size_t position = 0;
    while (position < piece.size()) {
      // The text was checked once; letting PCRE2 check it at every word would be quadratic.
      const int found = pcre2_match(code_.get(), subject, piece.size(), position,
                                    PCRE2_NO_UTF_CHECK, match.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      ASHLAR_CHECK(found > 0 && bounds[1] > position, "PCRE2 error {}", found);
      if (bounds[0] > position) out.push_back(piece.substr(position, bounds[0] - position));
      out.push_back(piece.substr(bounds[0], bounds[1] - bounds[0]));
      position = bounds[1];
    }
    if (position < piece.size()) out.push_back(piece.substr(position));
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };

  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_context, Free> context_;
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Create(std::string_view name) {
  const auto cut =
      std::find_if(kCuts.begin(), kCuts.end(), [&](const Cut& c) { return c.name == name; });
  if (cut == kCuts.end()) {
    std::string known;
    for (const Cut& each : kCuts) {
      if (!known.empty()) known += ", ";
      known += each.name;
    }
    return MakeError(ErrorCode::kUnsupported,
                     "tokenizer.ggml.pre is {}, a pre-tokenizer we do not know; known: {}",
                     gguf::Quote(name), known);
  }
  PreTokenizer result;
  for (const char* pattern : cut->stages) {
    result.stages_.push_back(std::make_unique<const Expression>(pattern));
  }
  result.keeps_whole_words_ = cut->keeps_whole_words;
  result.adds_bos_ = cut->adds_bos;
  return result;
}

void PreTokenizer::Split(std::string_view text, std::vector<std::string_view>& words) const {
  if (text.empty()) return;
  const std::optional<std::string> masked = MaskInvalid(text);
  const std::string_view subject = masked ? std::string_view(*masked) : text;

  std::vector<std::string_view> pieces = {subject};
  std::vector<std::string_view> next;
  for (const auto& stage : stages_) {
    next.clear();
    for (const std::string_view piece : pieces) stage->Split(piece, next);
    std::swap(pieces, next);
  }
  words.reserve(words.size() + pieces.size());
  for (const std::string_view piece : pieces) {
    words.push_back(
        text.substr(static_cast<std::size_t>(piece.data() - subject.data()), piece.size()));
  }
}

}  // namespace ashlar::text
