#include "base/check.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace ashlar::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, Options options)
    : tokenizer_(&tokenizer),
      with_special_(options.with_special),
      strips_space_(tokenizer.adds_space_prefix() && !options.continues_text) {}

std::string Detokenizer::Push(TokenId token) {
  std::string_view bytes = tokenizer_->TokenBytes(token, with_special_);
  if (bytes.empty()) return {};
  if (strips_space_ && bytes.front() == ' ') bytes.remove_prefix(1);
  strips_space_ = false;
  pending_ += bytes;

  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const std::size_t whole = WholePrefix(rest);
    text += rest.substr(0, whole);
    rest.remove_prefix(whole);
    if (rest.empty()) break;
    const Utf8Sequence broken = FirstSequence(rest);
    if (broken.kind == Utf8Kind::kIncomplete) break;
    text += kReplacementCharacter;
    rest.remove_prefix(broken.bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string Detokenizer::Finish() {
  std::string text = ReplaceInvalid(pending_);
  pending_.clear();
  return text;
}

}  // namespace ashlar::text
