// Text to token id: the one lookup that encoding spends its time in, so it is a flat table with
// open addressing (a node-based map costs two cache misses more per lookup).
//
// A model file chooses the keys, so it could choose keys that collide; the number of probes is
// bounded and a table that would exceed it is refused, so that loading and lookups cannot be made
// slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace ashlar::text {

// At half load an honest table of 2^22 keys stays far below this.
inline constexpr std::size_t kMaxTableProbes = 512;

// Mixes the bits of an integer so that all of them reach the low ones (the finalizer of
// MurmurHash3).
inline std::uint64_t MixBits(std::uint64_t bits) {
  bits ^= bits >> 33;
  bits *= 0xFF51AFD7ED558CCDull;
  bits ^= bits >> 33;
  bits *= 0xC4CEB9FE1A85EC53ull;
  return bits ^ (bits >> 33);
}

inline std::uint64_t HashText(std::string_view text) {
  std::uint64_t hash = 0x9E3779B97F4A7C15ull * (text.size() + 1);
  const char* data = text.data();
  std::size_t size = text.size();
  std::uint64_t word = 0;
  for (; size >= sizeof(word); data += sizeof(word), size -= sizeof(word)) {
    std::memcpy(&word, data, sizeof(word));
    hash = MixBits(hash ^ word);
  }
  word = 0;
  for (std::size_t i = 0; i < size; ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(data[i])} << (8 * i);
  }
  return MixBits(hash ^ word);
}

class TokenTable {
 public:
  enum class Inserted : std::uint8_t { kYes, kAlreadyThere, kTooManyCollisions };

  // Room for `keys` insertions; never grows.
  explicit TokenTable(std::size_t keys = 0);

  // `text` must outlive the table. kAlreadyThere leaves the first token in place.
  // Precondition: fewer insertions than promised so far.
  Inserted Insert(std::string_view text, TokenId token);

  std::optional<TokenId> Find(std::string_view text) const {
    const std::uint64_t hash = HashText(text);
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.token < 0) return std::nullopt;
      if (slot.hash == static_cast<std::uint32_t>(hash >> 32) && slot.size == text.size() &&
          std::memcmp(slot.data, text.data(), text.size()) == 0) {
        return slot.token;
      }
    }
  }

 private:
  struct Slot {
    const char* data = nullptr;
    std::uint32_t size = 0;
    std::uint32_t hash = 0;  // the high half; the low half chose the slot
    TokenId token = -1;      // -1: empty
  };

  std::vector<Slot> slots_;  // a power of two, at least twice the keys
  std::size_t mask_;
};

// What merging two tokens gives, and how early the merge comes (lower is earlier).
struct Merge {
  static constexpr std::uint32_t kNever = 0xFFFFFFFF;
  std::uint32_t rank = kNever;
  TokenId result = -1;
};

// (left token, right token) to their merge. Flat and bounded like TokenTable.
class MergeTable {
 public:
  explicit MergeTable(std::size_t keys = 0);

  // kAlreadyThere leaves the first merge in place. Precondition: left, right >= 0.
  TokenTable::Inserted Insert(TokenId left, TokenId right, Merge merge);

  // rank == Merge::kNever when the two do not merge. Any ids.
  Merge Find(TokenId left, TokenId right) const {
    const std::uint64_t key = Key(left, right);
    for (std::size_t i = MixBits(key) & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return slot.merge;
      if (slot.key == kEmpty) return Merge{};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // the key of (-1, -1)
  static std::uint64_t Key(TokenId left, TokenId right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace ashlar::text
