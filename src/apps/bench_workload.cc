#include "apps/bench_workload.h"

#include <malloc.h>

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::apps {
namespace {

// One lane of the smallest head: the decisions are those of any cache with one lane group.
Result<kv::KvLayout> TinyLayout() {
  return kv::KvLayout::Create({.block_tokens = kBenchBlockTokens,
                               .groups = {{.lanes = kv::LanesOfAllLayers(1, 1), .key_dim = 8}}});
}

// Bytes that the allocator has given out.
std::uint64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace

BenchTexts::BenchTexts(std::uint64_t tokens) : tokens_(tokens) {
  for (std::uint64_t i = 0; i < tokens; ++i) {
    tokens_[i] = static_cast<TokenId>(RandomBits(1, 0, i) % 100'000);
  }
}

Result<BenchWorkload> BenchWorkload::Create(std::uint64_t blocks, std::uint64_t sequence_blocks,
                                            kv::ReplacementKind kind) {
  ASHLAR_ASSIGN(const kv::KvLayout layout, TinyLayout());
  auto clock = std::make_unique<SteadyClock>();
  const std::uint64_t block_bytes = layout.group(0).block_bytes();
  ASHLAR_ASSIGN(std::unique_ptr<kv::KvCache> cache,
                kv::KvCache::Create(layout,
                                    {.memory_bytes = blocks * block_bytes,
                                     .page_bytes = 8 * block_bytes,  // as ChoosePageBytes has it
                                     .has_bytes = false,
                                     .replacement = kind},
                                    *clock));
  return BenchWorkload(std::move(clock), std::move(cache), blocks, sequence_blocks);
}

BenchWorkload::BenchWorkload(std::unique_ptr<SteadyClock> clock, std::unique_ptr<kv::KvCache> cache,
                             std::uint64_t blocks, std::uint64_t sequence_blocks)
    : clock_(std::move(clock)),
      cache_(std::move(cache)),
      blocks_(blocks / 8 * 8),  // whole pages
      sequence_blocks_(sequence_blocks),
      texts_(sequence_blocks * kBenchBlockTokens + 1),
      scope_{.model_fingerprint = "bench", .codec_spec = "f16"},
      digest_(kv::DigestOf(scope_)) {}

kv::Sequence BenchWorkload::Admit(std::span<const TokenId> tokens, kv::Reuse reuse,
                                  std::uint64_t max_tokens, kv::PrefixHashes* hashes) {
  const std::uint64_t most = std::max<std::uint64_t>(max_tokens, tokens.size());
  kv::Admission admission =
      cache_->Admit(PromptOf(tokens, hashes), {.max_tokens = most, .chunk = most, .reuse = reuse});
  ASHLAR_CHECK(admission.sequence.has_value(), "no room for {} tokens", most);
  return std::move(*admission.sequence);
}

kv::Sequence BenchWorkload::Store(std::span<const TokenId> tokens, kv::Reuse reuse,
                                  std::uint64_t max_tokens) {
  kv::Sequence sequence = Admit(tokens, reuse, max_tokens);
  const std::span<const TokenId> rest = tokens.subspan(sequence.size());
  const bool is_prepared = sequence.Prepare(rest.size());
  ASHLAR_CHECK(is_prepared, "{} tokens were promised", rest.size());
  sequence.Commit(rest);
  return sequence;
}

void BenchWorkload::Remember(std::uint64_t count) {
  for (std::uint64_t text = 0; text < count; ++text) (void)Store(Text(text), kv::Reuse::kOn);
}

std::uint64_t BenchWorkload::Choose(std::uint64_t count) {
  return RandomBits(2, 0, choices_++) % count;
}

Status BenchFigures::BeginSize(std::uint64_t blocks) {
  blocks_ = blocks;
  report_.Progress(fmt::format("{} blocks ...", blocks));
  const std::uint64_t before = HeapBytes();
  std::uint64_t bytes = 0;
  {
    ASHLAR_ASSIGN(const BenchWorkload workload,
                  BenchWorkload::Create(blocks, kSequenceBlocks, kv::ReplacementKind::kLru));
    bytes = HeapBytes() - before;
  }
  access_ns_ = MeasureRandomAccessNs(bytes, options_.min_time_ms);
  report_.Add({.name = "random_access",
               .params = {{"blocks", blocks}},
               .figures = {{"ns_per_access", access_ns_},
                           {"records_bytes", bytes},
                           {"records_bytes_per_block",
                            static_cast<double>(bytes) / static_cast<double>(blocks)}}});
  return {};
}

void BenchFigures::Add(std::string_view name, BenchJson params, std::string_view unit, double ns) {
  AddRow(name, std::move(params), {unit, ns}, ns, 1);
}

void BenchFigures::AddPrompt(std::string_view name, BenchJson params, double ms,
                             std::uint64_t blocks) {
  AddRow(name, std::move(params), {"ms_per_prompt", ms}, ms * 1e6, static_cast<double>(blocks));
}

void BenchFigures::AddRow(std::string_view name, BenchJson params,
                          std::pair<std::string_view, double> figure, double ns,
                          double blocks_touched) {
  const std::string key = fmt::format("{} {} {}", name, figure.first, params.dump());
  const Base& base =
      smallest_.try_emplace(key, Base{.ns = ns, .access_ns = access_ns_}).first->second;
  const double slower = access_ns_ - base.access_ns;
  BenchJson all = {{"blocks", blocks_}};
  all.update(params);
  BenchJson values = {{std::string(figure.first), figure.second},
                      {"ratio_to_smallest", ns / base.ns}};
  if (slower > 0) {
    values["growth_random_accesses"] = (ns - base.ns) / blocks_touched / slower;
  }
  report_.Add({.name = std::string(name),
               .params = std::move(all),
               .figures = std::move(values),
               .ratio_to_limit = ns / (access_ns_ * blocks_touched)});
}

}  // namespace ashlar::apps
