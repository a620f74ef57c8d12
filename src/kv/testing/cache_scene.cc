#include "kv/testing/cache_scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "kv/testing/marks.h"

namespace ashlar::kv::testing {
namespace {

constexpr std::uint64_t kEvents = 1024;

}  // namespace

Tokens Text(std::uint64_t seed, std::uint64_t count) {
  Tokens tokens(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>((i == 0 ? seed : RandomBits(seed, 1, i)) % (1u << 20));
  }
  return tokens;
}

Tokens Join(Tokens first, std::span<const TokenId> second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Tokens First(const Tokens& tokens, std::uint64_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::uint64_t BytesOfOneOfEach(const KvLayoutSpec& spec) {
  std::uint64_t bytes = 0;
  const KvLayout layout = *KvLayout::Create(spec);
  for (const StoreGroup& group : layout.store_groups()) bytes += group.block_bytes;
  return bytes;
}

CacheOptions RoomFor(std::uint64_t blocks, const KvLayoutSpec& layout) {
  const std::uint64_t bytes = BytesOfOneOfEach(layout);
  return {.memory_bytes = blocks * bytes, .page_bytes = bytes};
}

CacheScene::CacheScene(const KvLayoutSpec& layout, CacheOptions options) {
  if (options.max_events == 0) options.max_events = kEvents;
  cache_ = *KvCache::Create(*KvLayout::Create(layout), options, clock_);
  SetScope({.model_fingerprint = "model", .codec_spec = "f16"});
}

void CacheScene::SetScope(Scope scope) {
  scope_ = std::move(scope);
  digest_ = DigestOf(scope_);
}

Admission CacheScene::Admit(const Tokens& tokens, AdmitOptions options) {
  if (options.max_tokens == 0) options.max_tokens = tokens.size();
  return cache_->Admit(PromptOf(tokens), options);
}

Sequence CacheScene::Start(const Tokens& tokens, const AdmitOptions& options) {
  Admission admission = Admit(tokens, options);
  ASHLAR_CHECK(admission.status == AdmitStatus::kAdmitted, "not admitted: {}",
               admission.report.Explain());
  Check(*admission.sequence);
  return *std::move(admission.sequence);
}

bool CacheScene::Compute(Sequence& sequence, std::span<const TokenId> tokens, std::uint64_t piece) {
  while (!tokens.empty()) {
    const std::span<const TokenId> now = tokens.first(std::min<std::size_t>(piece, tokens.size()));
    if (!sequence.Prepare(now.size())) return false;
    Write(sequence, now);
    sequence.Commit(now);
    tokens = tokens.subspan(now.size());
  }
  return true;
}

void CacheScene::Finish(Sequence& sequence, const Tokens& tokens) {
  ASHLAR_CHECK(Compute(sequence, std::span(tokens).subspan(sequence.size())), "refused");
  Check(sequence);
}

std::uint64_t CacheScene::Serve(const Tokens& tokens, const AdmitOptions& options) {
  Sequence sequence = Start(tokens, options);
  const std::uint64_t hit = sequence.size();
  Finish(sequence, tokens);
  return hit;
}

void CacheScene::Touch(const Tokens& tokens) {
  const PrefixLease lease = Lookup(Join(tokens, Tokens{0}));
  ASHLAR_CHECK(!lease.empty(), "nothing to touch");
}

void CacheScene::Write(const Sequence& sequence, std::span<const TokenId> tokens) {
  const std::span<const TokenId> stored = sequence.tokens();
  const Tokens all = Join(Tokens(stored.begin(), stored.end()), tokens);
  WriteMarks(sequence, cache_->layout(), RootHash(digest_), all, sequence.size());
}

void CacheScene::Check(const Sequence& sequence) const {
  CheckMarks(sequence, cache_->layout(), RootHash(digest_));
}

std::string CacheScene::State() const {
  cache_->CheckInvariants();
  const CacheCounters& c = cache_->counters();
  const CacheCore& core = cache_->core();
  std::string text = fmt::format(
      "counters {} {} {} {} {} {} {} {} {}\nmoves {} nodes {} live pages {} sequences {} pinned {} "
      "event {}\n",
      c.admitted, c.prompt_tokens, c.hit_tokens, c.taken_blocks, c.sealed_blocks, c.replaced_blocks,
      c.copied_blocks, c.converged_blocks, c.unindexed_blocks, core.pool.store().moves(),
      core.index.nodes(), core.pool.live_pages(), cache_->live_sequences(), cache_->pinned_bytes(),
      core.events.last_sequence());
  for (std::uint32_t g = 0; g < core.store_groups(); ++g) {
    text += fmt::format("group {}: {} pinned, {} promised\n", g, core.pool.pinned(g),
                        core.pool.promised(g));
  }
  const MemoryReport report = cache_->Account();
  text += fmt::format("memory {} {} {} {} {}\n", report.arena_bytes, report.free_slot_bytes,
                      report.slack_bytes, report.free_page_bytes, report.remainder_bytes);
  for (const MemoryRow& row : report.rows) {
    text += fmt::format("account {} group {} {}{}: {}\n", row.account.value(), row.group,
                        NameOf(row.state), row.is_open_blocks ? " ring" : "", row.bytes);
  }
  std::vector<std::string> entries;
  for (const SnapshotEntry& entry : cache_->TakeSnapshot().entries) {
    entries.push_back(
        fmt::format("{} {} {}\n", entry.key.ToHex(), entry.group, entry.account.value()));
  }
  std::ranges::sort(entries);
  for (const std::string& entry : entries) text += entry;
  return text;
}

std::uint64_t CacheScene::HeldBy(const Sequence& sequence, std::uint32_t group) {
  const auto blocks = sequence.blocks(group);
  return blocks.size() - static_cast<std::uint64_t>(std::ranges::count(blocks, kNoBlock));
}

}  // namespace ashlar::kv::testing
