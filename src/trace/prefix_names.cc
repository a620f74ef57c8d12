#include "trace/prefix_names.h"

#include <bit>
#include <cstring>

namespace ashlar::trace {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned kDigitBits = 6;
constexpr std::size_t kDigitsPerName = kNameBits / kDigitBits;
constexpr std::uint8_t kNoDigit = 0xFF;

constexpr std::array<std::uint8_t, 256> MakeValues() {
  std::array<std::uint8_t, 256> values{};
  for (std::uint8_t& value : values) value = kNoDigit;
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}
constexpr auto kValues = MakeValues();

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
  void Take(std::uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t SipHash(const NamingKey& key, std::string_view bytes) {
  SipState state = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                    key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const std::uint64_t length = bytes.size();
  const auto word_of = [](std::string_view part) {
    std::uint64_t word = 0;
    for (std::size_t i = part.size(); i-- > 0;) {
      word = (word << 8) | static_cast<std::uint8_t>(part[i]);
    }
    return word;
  };
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) state.Take(word_of(bytes.substr(0, 8)));
  state.Take(word_of(bytes) | (length << 56));
  state.v2 ^= 0xFF;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

void PrefixNamer::Add(std::span<const TokenId> tokens) {
  names_.reserve(names_.size() + tokens.size());
  for (const TokenId token : tokens) {
    std::array<char, sizeof(whole_) + sizeof(token)> bytes;
    std::memcpy(bytes.data(), &whole_, sizeof(whole_));
    std::memcpy(bytes.data() + sizeof(whole_), &token, sizeof(token));
    whole_ = SipHash(key_, {bytes.data(), bytes.size()});
    names_.push_back(static_cast<std::uint32_t>(whole_ & ((1U << kNameBits) - 1)));
  }
}

std::string EncodeNames(std::span<const std::uint32_t> names) {
  std::string text;
  text.reserve(names.size() * kDigitsPerName);
  for (const std::uint32_t name : names) {
    for (unsigned shift = kNameBits; shift > 0; shift -= kDigitBits) {
      text += kDigits[(name >> (shift - kDigitBits)) % kDigits.size()];
    }
  }
  return text;
}

std::optional<std::vector<std::uint32_t>> DecodeNames(std::string_view text) {
  if (text.size() % kDigitsPerName != 0) return std::nullopt;
  std::vector<std::uint32_t> names;
  names.reserve(text.size() / kDigitsPerName);
  for (std::size_t i = 0; i < text.size(); i += kDigitsPerName) {
    std::uint32_t name = 0;
    for (const char digit : text.substr(i, kDigitsPerName)) {
      const std::uint8_t value = kValues[static_cast<std::uint8_t>(digit)];
      if (value == kNoDigit) return std::nullopt;
      name = (name << kDigitBits) | value;
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace ashlar::trace
