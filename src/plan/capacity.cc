#include "plan/capacity.h"

#include <algorithm>

#include "base/byte_size.h"
#include "kv/page_cut.h"

namespace ashlar::plan {
namespace {

std::vector<std::uint64_t> PeakOf(const kv::KvLayout& layout, const Workload& workload) {
  std::vector<std::uint64_t> blocks;
  layout.PeakBlocks({.tokens = workload.context, .chunk = workload.chunk}, blocks);
  return blocks;
}

constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::uint64_t SequencesThatFit(const kv::KvLayout& layout, std::uint64_t arena_bytes,
                               const Workload& workload) {
  const Result<kv::PageCut> cut = kv::PageCut::Of(layout, {.memory_bytes = arena_bytes});
  return cut.ok() ? cut->MaxSequences(PeakOf(layout, workload)) : 0;
}

std::uint64_t ContextThatFits(const kv::KvLayout& layout, std::uint64_t arena_bytes,
                              const Workload& workload, std::uint64_t limit) {
  std::uint64_t fits = 0;
  for (std::uint64_t above = limit + 1; above - fits > 1;) {
    Workload tried = workload;
    tried.context = fits + (above - fits) / 2;
    const bool is_enough = SequencesThatFit(layout, arena_bytes, tried) >= workload.sequences;
    (is_enough ? fits : above) = tried.context;
  }
  return fits;
}

std::optional<std::uint64_t> ArenaFor(const kv::KvLayout& layout, const Workload& workload) {
  const std::uint64_t need = layout.BytesOf(PeakOf(layout, workload)) * workload.sequences;
  std::uint64_t largest = 0;
  for (const kv::StoreGroup& group : layout.store_groups()) {
    largest = std::max<std::uint64_t>(largest, group.block_bytes);
  }
  // In pages of at most sixteen of the largest blocks, of which each loses less than one of them
  // and each group's last may be empty but for one.
  const std::uint64_t most = 2 * need + 16 * largest * (layout.store_groups().size() + 1) + kMiB;
  for (std::uint64_t arena = RoundUp(need, kMiB); arena <= most;
       arena = RoundUp(arena + arena / 512, kMiB)) {
    if (SequencesThatFit(layout, arena, workload) >= workload.sequences) return arena;
  }
  return std::nullopt;
}

std::uint64_t BookkeepingBytes(const kv::KvLayout& layout, std::uint64_t arena_bytes) {
  const Result<kv::PageCut> cut = kv::PageCut::Of(layout, {.memory_bytes = arena_bytes});
  if (!cut.ok()) return 0;
  std::uint64_t per_page = 0;
  for (std::uint32_t s = 0; s < layout.store_groups().size(); ++s) {
    per_page = std::max(per_page, cut->blocks_per_page(s));
  }
  const std::uint64_t blocks = cut->pages() * per_page;
  // Of a block: its place and state (32), its node in the prefix tree (64) with its slots (32, as
  // their number is a power of two) and tokens, its record for replacement (112), the rest (8); by
  // group: where the node's blocks are.
  const std::uint64_t each =
      248 + sizeof(std::int32_t) * layout.block_tokens() + 8 * layout.groups().size();
  constexpr std::uint64_t kExtraNodes = 4096;  // of scopes (kv/core.cc)
  return (blocks + kExtraNodes) * each;
}

MemoryBudget BudgetOf(const kv::KvLayout& layout, const MemoryQuestion& question) {
  MemoryBudget budget = {.memory_bytes = question.memory_bytes,
                         .margin_bytes = question.margin_bytes,
                         .weights_bytes = question.weights_bytes,
                         .workspace_bytes = question.workspace_bytes};
  const std::uint64_t fixed =
      question.margin_bytes + question.weights_bytes + question.workspace_bytes;
  if (fixed >= question.memory_bytes) {
    budget.missing_bytes = fixed - question.memory_bytes;
    return budget;
  }
  const std::uint64_t rest = question.memory_bytes - fixed;
  // The bookkeeping grows with the arena, so the arena is what leaves room for its own.
  std::uint64_t fits = 0;
  for (std::uint64_t above = rest / kMiB + 1; above - fits > 1;) {
    const std::uint64_t middle = fits + (above - fits) / 2;
    const std::uint64_t arena = middle * kMiB;
    (arena + BookkeepingBytes(layout, arena) <= rest ? fits : above) = middle;
  }
  budget.arena_bytes = fits * kMiB;
  budget.bookkeeping_bytes = BookkeepingBytes(layout, budget.arena_bytes);
  return budget;
}

}  // namespace ashlar::plan
