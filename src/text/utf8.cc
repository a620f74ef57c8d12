#include "text/utf8.h"

#include <cstring>

#include "base/check.h"

namespace ashlar::text {
namespace {

// What a lead byte calls for: the length of its sequence (0: no lead byte) and the range its second
// byte must lie in.
struct Lead {
  std::uint8_t bytes;
  std::uint8_t second_min;
  std::uint8_t second_max;
};

Lead LeadOf(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Sequence FirstSequence(std::string_view text) {
  ASHLAR_DCHECK(!text.empty());
  const Lead lead = LeadOf(static_cast<std::uint8_t>(text[0]));
  if (lead.bytes == 1) return {Utf8Kind::kWhole, 1};
  if (lead.bytes == 0) return {Utf8Kind::kInvalid, 1};
  std::uint8_t min = lead.second_min;
  std::uint8_t max = lead.second_max;
  for (std::uint8_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if (byte < min || byte > max) return {Utf8Kind::kInvalid, i};
    min = 0x80;
    max = 0xBF;
  }
  return {Utf8Kind::kWhole, lead.bytes};
}

std::size_t WholePrefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t position = 0;
  while (position < text.size()) {
    std::uint64_t word = 0;
    while (text.size() - position >= sizeof(word)) {
      std::memcpy(&word, text.data() + position, sizeof(word));
      if ((word & kHighBits) != 0) break;
      position += sizeof(word);
    }
    if (position == text.size()) break;
    const Utf8Sequence sequence = FirstSequence(text.substr(position));
    if (sequence.kind != Utf8Kind::kWhole) break;
    position += sequence.bytes;
  }
  return position;
}

std::string ReplaceInvalid(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t whole = WholePrefix(text);
    result += text.substr(0, whole);
    text.remove_prefix(whole);
    if (text.empty()) break;
    result += kReplacementCharacter;
    text.remove_prefix(FirstSequence(text).bytes);
  }
  return result;
}

}  // namespace ashlar::text
