#include "text/token_table.h"

#include <bit>

#include "base/check.h"

namespace ashlar::text {
namespace {

std::size_t SlotsFor(std::size_t keys) { return std::bit_ceil(2 * keys + 2); }

}  // namespace

TokenTable::TokenTable(std::size_t keys) : slots_(SlotsFor(keys)), mask_(slots_.size() - 1) {}

TokenTable::Inserted TokenTable::Insert(std::string_view text, TokenId token) {
  ASHLAR_CHECK(token >= 0);
  const std::uint64_t hash = HashText(text);
  std::size_t i = hash & mask_;
  for (std::size_t probes = 0; probes < kMaxTableProbes; ++probes, i = (i + 1) & mask_) {
    Slot& slot = slots_[i];
    if (slot.token < 0) {
      slot = {text.data(), static_cast<std::uint32_t>(text.size()),
              static_cast<std::uint32_t>(hash >> 32), token};
      return Inserted::kYes;
    }
    if (std::string_view(slot.data, slot.size) == text) return Inserted::kAlreadyThere;
  }
  return Inserted::kTooManyCollisions;
}

MergeTable::MergeTable(std::size_t keys) : slots_(SlotsFor(keys)), mask_(slots_.size() - 1) {}

TokenTable::Inserted MergeTable::Insert(TokenId left, TokenId right, Merge merge) {
  ASHLAR_CHECK(left >= 0 && right >= 0);
  const std::uint64_t key = Key(left, right);
  std::size_t i = MixBits(key) & mask_;
  for (std::size_t probes = 0; probes < kMaxTableProbes; ++probes, i = (i + 1) & mask_) {
    Slot& slot = slots_[i];
    if (slot.key == kEmpty) {
      slot = {key, merge};
      return TokenTable::Inserted::kYes;
    }
    if (slot.key == key) return TokenTable::Inserted::kAlreadyThere;
  }
  return TokenTable::Inserted::kTooManyCollisions;
}

}  // namespace ashlar::text
