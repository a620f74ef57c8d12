#include "kv/testing/marks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::kv::testing {
namespace {

using Mark = std::uint64_t;

// By position: a chain over the tokens.
std::vector<Mark> MarksOf(std::uint64_t seed, std::uint32_t group,
                          std::span<const TokenId> tokens) {
  std::vector<Mark> marks;
  marks.reserve(tokens.size());
  Mark mark = MixBits(seed + group);
  for (const TokenId token : tokens) {
    mark = MixBits(mark ^ static_cast<std::uint64_t>(token));
    marks.push_back(mark);
  }
  return marks;
}

Mark Encoded(Mark mark) { return MixBits(mark ^ 0x5EA1); }

void Put(std::byte* block, std::uint64_t slot, Mark mark) {
  std::memcpy(block + slot * sizeof mark, &mark, sizeof mark);
}
Mark Get(const std::byte* block, std::uint64_t slot) {
  Mark mark = 0;
  std::memcpy(&mark, block + slot * sizeof mark, sizeof mark);
  return mark;
}

void CheckOpenRows(const Sequence& sequence, std::uint32_t group, std::span<const Mark> marks,
                   std::uint64_t block_tokens) {
  const std::uint64_t tail = marks.size() / block_tokens;
  if (marks.size() % block_tokens == 0) return;
  const std::byte* const rows = sequence.open_block(group, tail);
  for (std::uint64_t i = tail * block_tokens; i < marks.size(); ++i) {
    ASHLAR_CHECK(Get(rows, i % block_tokens) == marks[i],
                 "group {} token {} of {}: the open block holds another prefix", group, i,
                 marks.size());
  }
}

// As a forward pass: block after block, since a later one may have an earlier one's open block.
void WriteEncoded(const Sequence& sequence, std::uint32_t group, std::span<const Mark> marks,
                  std::uint64_t from, std::uint64_t block_tokens) {
  CheckOpenRows(sequence, group, marks.first(from), block_tokens);
  const std::uint64_t end = (marks.size() + block_tokens - 1) / block_tokens;
  for (std::uint64_t n = from / block_tokens; n < end; ++n) {
    const std::uint64_t last = std::min<std::uint64_t>(marks.size(), (n + 1) * block_tokens);
    if (last == (n + 1) * block_tokens) {
      std::byte* const sealed = sequence.addresses(group)[n];
      for (std::uint64_t i = n * block_tokens; i < last; ++i) {
        Put(sealed, i % block_tokens, Encoded(marks[i]));
      }
    }
    if (n + sequence.open_blocks() < end) continue;
    std::byte* const rows = sequence.open_block(group, n);
    for (std::uint64_t i = std::max(from, n * block_tokens); i < last; ++i) {
      Put(rows, i % block_tokens, marks[i]);
    }
  }
}

}  // namespace

void WriteMarks(const Sequence& sequence, const KvLayout& layout, std::uint64_t seed,
                std::span<const TokenId> tokens, std::uint64_t from) {
  const std::uint64_t block_tokens = layout.block_tokens();
  for (std::uint32_t g = 0; g < layout.groups().size(); ++g) {
    const std::vector<Mark> marks = MarksOf(seed, g, tokens);
    if (layout.group(g).is_encoded()) {
      WriteEncoded(sequence, g, marks, from, block_tokens);
      continue;
    }
    const auto addresses = sequence.addresses(g);
    for (std::uint64_t i = from; i < marks.size(); ++i) {
      Put(addresses[i / block_tokens], i % block_tokens, marks[i]);
    }
  }
}

void CheckMarks(const Sequence& sequence, const KvLayout& layout, std::uint64_t seed) {
  const std::uint64_t block_tokens = layout.block_tokens();
  const std::uint64_t size = sequence.size();
  for (std::uint32_t g = 0; g < layout.groups().size(); ++g) {
    const LaneGroup& group = layout.group(g);
    const std::vector<Mark> marks = MarksOf(seed, g, sequence.tokens());
    if (group.is_encoded()) CheckOpenRows(sequence, g, marks, block_tokens);
    const auto addresses = sequence.addresses(g);
    const std::uint64_t end = group.is_encoded() ? size / block_tokens * block_tokens : size;
    for (std::uint64_t i = 0; i < end; ++i) {
      const bool is_read =
          !group.has_window() || i + group.spec().window > size || i < group.spec().sinks;
      if (!is_read) continue;
      const std::byte* const block = addresses[i / block_tokens];
      ASHLAR_CHECK(block != nullptr, "group {} token {} of {} has no block", g, i, size);
      const Mark expected = group.is_encoded() ? Encoded(marks[i]) : marks[i];
      ASHLAR_CHECK(Get(block, i % block_tokens) == expected,
                   "group {} token {} of {} holds another prefix", g, i, size);
    }
  }
}

}  // namespace ashlar::kv::testing
