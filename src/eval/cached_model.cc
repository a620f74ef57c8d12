#include "eval/cached_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/kv_layout.h"

namespace ashlar::eval {
namespace {

// What the blocks of one sequence take at the most, in pages of the largest kind of block.
kv::CacheOptions CacheOptionsFor(const kv::KvLayout& layout, const CacheShape& shape) {
  std::uint64_t page_bytes = 0;
  for (const kv::StoreGroup& group : layout.store_groups()) {
    page_bytes = std::max<std::uint64_t>(page_bytes, group.block_bytes);
  }
  std::uint64_t pages = 0;
  for (const kv::StoreGroup& group : layout.store_groups()) {
    const std::uint64_t per_page = page_bytes / group.block_bytes;
    const std::uint64_t blocks =
        group.is_open
            ? layout.OpenBlocks(0)
            : layout.group(group.lane_group).PeakBlocks(shape.max_tokens, shape.chunk_tokens);
    pages += (blocks + per_page - 1) / per_page;
  }
  return {.memory_bytes = pages * page_bytes, .page_bytes = page_bytes};
}

}  // namespace

Result<kv::KvLayout> LayoutOf(const model::ModelConfig& config, std::string_view spec,
                              std::uint32_t block_tokens) {
  ASHLAR_ASSIGN(const model::KvCodecSpec codecs, model::ParseKvCodecSpec(spec));
  return model::KvLayoutOf(config, codecs, block_tokens);
}

Result<std::unique_ptr<CachedModel>> CachedModel::Create(const Machine& machine,
                                                         std::string_view spec,
                                                         const CacheShape& shape) {
  ASHLAR_CHECK(shape.max_tokens > 0 && shape.chunk_tokens > 0, "{} tokens in chunks of {}",
               shape.max_tokens, shape.chunk_tokens);
  ASHLAR_ASSIGN(const kv::KvLayout layout,
                LayoutOf(machine.model.config(), spec, shape.block_tokens));
  auto clock = std::make_unique<SteadyClock>();
  ASHLAR_ASSIGN(auto cache, kv::KvCache::Create(layout, CacheOptionsFor(layout, shape), *clock));
  return std::unique_ptr<CachedModel>(
      new CachedModel(machine, std::string(spec), shape, std::move(clock), std::move(cache)));
}

CachedModel::CachedModel(const Machine& machine, std::string spec, const CacheShape& shape,
                         std::unique_ptr<SteadyClock> clock, std::unique_ptr<kv::KvCache> cache)
    : spec_(std::move(spec)),
      shape_(shape),
      vocab_(machine.model.config().vocab),
      clock_(std::move(clock)),
      cache_(std::move(cache)),
      forward_(machine.model, cache_->layout(), machine.kernels, machine.pool, shape.chunk_tokens,
               machine.activations) {}

void CachedModel::Restart() {
  sequence_.reset();
  const kv::Scope scope;
  const kv::ScopeDigest digest = kv::DigestOf(scope);
  kv::Admission admission = cache_->Admit(
      {.scope = scope, .digest = digest, .tokens = {}},
      {.max_tokens = shape_.max_tokens, .chunk = shape_.chunk_tokens, .reuse = kv::Reuse::kOff});
  ASHLAR_CHECK(admission.sequence, "the cache is empty and has no room for its one sequence");
  sequence_ = *std::move(admission.sequence);
}

Status CachedModel::Append(std::span<const TokenId> tokens, std::span<float> logits) {
  if (!sequence_) Restart();
  ASHLAR_CHECK(logits.empty() || logits.size() == tokens.size() * vocab_,
               "room for {} logits of {} tokens", logits.size(), tokens.size());
  ASHLAR_CHECK(sequence_->Prepare(tokens.size()), "{} tokens more than the {} promised",
               tokens.size(), shape_.max_tokens);
  std::vector<model::GroupBlocks> groups;
  for (std::uint32_t g = 0; g < cache_->layout().groups().size(); ++g) {
    groups.push_back({.blocks = sequence_->addresses(g), .open = sequence_->OpenRing(g)});
  }
  const model::Chunk chunk = {
      .tokens = tokens,
      .position = sequence_->size(),
      .groups = groups,
      .logits = logits.empty() ? model::LogitRows::kNone : model::LogitRows::kAll};
  forward_.Run({&chunk, 1}, [&](std::size_t, std::size_t token, std::span<const float> row) {
    std::copy(row.begin(), row.end(), logits.begin() + static_cast<std::ptrdiff_t>(token * vocab_));
  });
  if (forward_.IsRefused(0)) {
    return MakeError(ErrorCode::kUnsupported,
                     "codec '{}': the model's keys or values at positions {} to {} of a window are "
                     "not finite in its format; a wider one (bf16, f32) may hold them",
                     spec_, sequence_->size(), sequence_->size() + tokens.size() - 1);
  }
  sequence_->Commit(tokens);
  return {};
}

}  // namespace ashlar::eval
