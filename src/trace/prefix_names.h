// Names of prefixes, for traces that must not tell what was said: which requests begin alike, and
// how far, and nothing else.
//
// The name of a prefix is SipHash-2-4 (Aumasson, Bernstein 2012) of the name of the one before it
// and the next token, under a random key that is written nowhere: without the key nobody can try
// texts. A trace keeps the last kNameBits of each name, in base64: four characters a token. Two
// different prefixes get the same name by chance once in 2^kNameBits; what follows is told apart
// again, since the whole name goes on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace ashlar::trace {

inline constexpr unsigned kNameBits = 24;
using NamingKey = std::array<std::uint64_t, 2>;

std::uint64_t SipHash(const NamingKey& key, std::string_view bytes);

// The names of the prefixes of one text, token by token.
class PrefixNamer {
 public:
  explicit PrefixNamer(const NamingKey& key) : key_(key) {}
  void Add(std::span<const TokenId> tokens);
  void Add(TokenId token) { Add(std::span(&token, 1)); }
  const std::vector<std::uint32_t>& names() const { return names_; }

 private:
  NamingKey key_;
  std::uint64_t whole_ = 0;  // of the last one
  std::vector<std::uint32_t> names_;
};

// Names as text, and back: nullopt when it is no such text.
std::string EncodeNames(std::span<const std::uint32_t> names);
std::optional<std::vector<std::uint32_t>> DecodeNames(std::string_view text);

}  // namespace ashlar::trace
