// A stand-in for a model: what it stores for a token is a mark of the token's whole prefix, so that
// a slot that holds another prefix's bytes is found out. Encoded groups (layout.h) are treated as a
// forward pass must: raw rows go to open blocks, full blocks are "encoded" from them.
#pragma once

#include <cstdint>
#include <span>

#include "kv/cache.h"

namespace ashlar::kv::testing {

// Writes the slots of positions [from, tokens.size()) in one step; `tokens` begins at position 0.
// CHECKs that the open block that the step goes on in holds what was written before. Precondition:
// prepared. Texts of other seeds have other marks.
void WriteMarks(const Sequence& sequence, const KvLayout& layout, std::uint64_t seed,
                std::span<const TokenId> tokens, std::uint64_t from);

// CHECKs that every slot a query of the sequence reads holds the mark of its prefix, encoded where
// its block is sealed and raw where it is open.
void CheckMarks(const Sequence& sequence, const KvLayout& layout, std::uint64_t seed);

}  // namespace ashlar::kv::testing
