#include <fmt/format.h>

#include <atomic>
#include <new>
#include <utility>

#include "ashlar/kv_cache.h"
#include "embed/convert.h"
#include "embed/impl.h"

namespace ashlar::cache {

using internal::CacheImpl;
using internal::EmptyHandle;
using internal::Fail;
using internal::FromKv;
using internal::ToKv;

// --- Life ---

Expected<Cache> Cache::Create(const Layout& layout, CacheOptions options) {
  static std::atomic<std::uint64_t> serials = 0;
  const Expected<kv::KvLayout> kv_layout = ToKv(layout);
  if (!kv_layout) return kv_layout.error();
  const Expected<kv::CacheOptions> kv_options = ToKv(*kv_layout, options);
  if (!kv_options) return kv_options.error();
  auto impl = std::make_shared<CacheImpl>(std::move(options.now_ns), ++serials);
  try {
    Result<std::unique_ptr<kv::KvCache>> made =
        kv::KvCache::Create(*kv_layout, *kv_options, impl->clock);
    if (!made.ok()) return FromKv(std::move(made).error());
    impl->kv = std::move(made).value();
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kLimit, "the system has no memory to keep the blocks of {} bytes",
                options.memory_bytes);
  }
  if (!impl->has_bytes()) impl->matcher.emplace(impl->kv->core());
  return Cache(std::move(impl));
}

Cache::Cache(std::shared_ptr<CacheImpl> impl) : impl_(std::move(impl)) {}
Cache::Cache(Cache&& other) noexcept = default;
Cache& Cache::operator=(Cache&& other) noexcept = default;
Cache::~Cache() = default;

// --- What it is made of ---

std::size_t Cache::groups() const { return impl_ ? impl_->groups() : 0; }

std::uint32_t Cache::max_blocks() const {
  return impl_ ? impl_->kv->core().pool.store().max_blocks() : 0;
}

Expected<GroupSizes> Cache::SizesOf(std::uint32_t group) const {
  if (!impl_) return EmptyHandle();
  if (Expected<void> valid = impl_->CheckGroup(group); !valid) return valid.error();
  const kv::LaneGroup& lanes = impl_->kv->layout().group(group);
  return GroupSizes{.block_bytes = lanes.block_bytes(),
                    .key_tile_bytes = lanes.key_tile_bytes(),
                    .value_tile_bytes = lanes.value_tile_bytes(),
                    .bytes_per_token = lanes.bytes_per_token()};
}

std::optional<LanePlace> Cache::Find(Lane lane) const {
  if (!impl_) return std::nullopt;
  const auto place =
      impl_->kv->layout().Find({.model = lane.model, .layer = lane.layer, .head = lane.head});
  if (!place) return std::nullopt;
  return LanePlace{
      .group = place->group, .key_offset = place->key_offset, .value_offset = place->value_offset};
}

std::string Cache::LayoutFingerprint() const {
  return impl_ ? impl_->kv->layout().Fingerprint() : std::string();
}

// --- Prompts ---

Expected<LookupReport> Cache::Probe(const Scope& scope, std::span<const TokenId> tokens) const {
  if (!impl_) return EmptyHandle();
  const Expected<kv::Prompt> prompt = impl_->PromptOf(scope, tokens);
  if (!prompt) return prompt.error();
  return FromKv(impl_->kv->Probe(*prompt));
}

Expected<LookupResult> Cache::Lookup(const Scope& scope, std::span<const TokenId> tokens,
                                     std::uint16_t account) {
  if (!impl_) return EmptyHandle();
  if (Expected<void> valid = impl_->CheckAccount(account); !valid) return valid.error();
  const Expected<kv::Prompt> prompt = impl_->PromptOf(scope, tokens);
  if (!prompt) return prompt.error();
  kv::LookupReport report;
  kv::PrefixLease lease = impl_->kv->Lookup(*prompt, kv::AccountId(account), &report);
  return LookupResult{.lease = Lease(std::make_unique<internal::LeaseImpl>(
                          internal::LeaseImpl{.cache = impl_, .lease = std::move(lease)})),
                      .report = FromKv(report)};
}

Expected<Admission> Cache::Admit(const Scope& scope, std::span<const TokenId> tokens,
                                 const AdmitOptions& options) {
  const Expected<std::vector<std::uint64_t>> needed = BlocksNeeded(options);
  if (!needed) return needed.error();
  if (options.max_tokens < tokens.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                "max_tokens is {}; it must be at least the prompt's {} tokens", options.max_tokens,
                tokens.size());
  }
  const Expected<kv::Prompt> prompt = impl_->PromptOf(scope, tokens);
  if (!prompt) return prompt.error();
  const kv::AdmitOptions kv_options = *ToKv(options);
  if (!impl_->kv->core().pool.CouldEverFit(kv_options.account, *needed)) {
    return Fail(ErrorCode::kLimit,
                "{} tokens need blocks of {} bytes; the memory is {} bytes, less what others' "
                "floors keep, and account {} may have {}",
                options.max_tokens, impl_->kv->layout().BytesOf(*needed), memory_bytes(),
                options.account, impl_->kv->core().pool.limits(kv_options.account).ceiling_bytes);
  }
  Expected<kv::Admission> admitted = impl_->Admit(*prompt, kv_options);
  if (!admitted) return admitted.error();
  Admission admission{.report = FromKv(admitted->report)};
  switch (admitted->status) {
    case kv::AdmitStatus::kWait:
      admission.status = AdmitStatus::kWait;
      break;
    case kv::AdmitStatus::kNoMemory:
      admission.status = AdmitStatus::kNoMemory;
      break;
    case kv::AdmitStatus::kAdmitted:
      admission.status = AdmitStatus::kAdmitted;
      admission.sequence = Sequence(std::make_unique<internal::SequenceImpl>(
          internal::SequenceImpl{.cache = impl_, .sequence = std::move(*admitted->sequence)}));
      break;
  }
  return admission;
}

Expected<std::vector<std::uint64_t>> Cache::BlocksNeeded(const AdmitOptions& options) const {
  if (!impl_) return EmptyHandle();
  const Expected<kv::AdmitOptions> kv_options = ToKv(options);
  if (!kv_options) return kv_options.error();
  if (Expected<void> valid = impl_->CheckAccount(options.account); !valid) return valid.error();
  std::vector<std::uint64_t> blocks;
  impl_->kv->BlocksNeeded(*kv_options, blocks);
  return blocks;
}

// --- Pins and copies ---

Expected<PinId> Cache::Pin(Lease lease) {
  if (!impl_) return EmptyHandle();
  if (!lease.impl_) return EmptyHandle();
  if (lease.impl_->cache != impl_) {
    return Fail(ErrorCode::kInvalidArgument, "the lease is of another cache");
  }
  Result<kv::PinId> pin = impl_->kv->Pin(std::move(lease.impl_->lease));
  if (!pin.ok()) return FromKv(std::move(pin).error());
  return PinId{.cache = impl_->serial, .slot = pin->slot, .generation = pin->generation};
}

Expected<void> Cache::Unpin(PinId pin) {
  if (!impl_) return EmptyHandle();
  if (pin.cache != impl_->serial) {
    return Fail(ErrorCode::kNotFound, "the pin is of cache {}, this is cache {}", pin.cache,
                impl_->serial);
  }
  ashlar::Status status = impl_->kv->Unpin({.slot = pin.slot, .generation = pin.generation});
  if (!status.ok()) return FromKv(std::move(status).error());
  return {};
}

std::uint64_t Cache::pinned_bytes() const { return impl_ ? impl_->kv->pinned_bytes() : 0; }

std::vector<BlockCopy> Cache::TakeCopies() {
  return impl_ ? std::exchange(impl_->copies, {}) : std::vector<BlockCopy>();
}

// --- The whole cache ---

bool Cache::Reset() { return impl_ && impl_->kv->Reset(); }

void Cache::ResetAll() {
  if (impl_) impl_->kv->ResetAll();
}

void Cache::Invalidate() {
  if (impl_) impl_->kv->Invalidate();
}

Expected<void> Cache::Resize(std::uint64_t memory_bytes) {
  if (!impl_) return EmptyHandle();
  ashlar::Status status = impl_->kv->Resize(memory_bytes);
  if (!status.ok()) return FromKv(std::move(status).error());
  return {};
}

// --- What it says ---

std::uint64_t Cache::memory_bytes() const { return impl_ ? impl_->kv->memory_bytes() : 0; }
std::uint64_t Cache::live_sequences() const { return impl_ ? impl_->kv->live_sequences() : 0; }
Counters Cache::counters() const { return impl_ ? FromKv(impl_->kv->counters()) : Counters(); }
MemoryReport Cache::Memory() const { return impl_ ? FromKv(impl_->kv->Account()) : MemoryReport(); }

Expected<EventBatch> Cache::ReadEvents(std::uint64_t from_sequence, std::size_t max) const {
  if (!impl_) return EmptyHandle();
  if (!impl_->kv->events().is_on()) {
    return Fail(ErrorCode::kUnsupported, "this cache keeps no events: max_events is 0");
  }
  std::vector<kv::KvEvent> events;
  EventBatch batch;
  if (const auto gap = impl_->kv->events().Read(from_sequence, max, events)) {
    batch.gap_until = gap->oldest;
  }
  batch.events.reserve(events.size());
  for (const kv::KvEvent& event : events) batch.events.push_back(FromKv(event));
  return batch;
}

Expected<Snapshot> Cache::TakeSnapshot() const {
  if (!impl_) return EmptyHandle();
  if (!impl_->kv->events().is_on()) {
    return Fail(ErrorCode::kUnsupported, "this cache keeps no events: max_events is 0");
  }
  kv::Snapshot taken = impl_->kv->TakeSnapshot();
  Snapshot snapshot{.sequence = taken.sequence};
  snapshot.entries.reserve(taken.entries.size());
  for (kv::SnapshotEntry& entry : taken.entries) {
    snapshot.entries.push_back(FromKv(std::move(entry)));
  }
  return snapshot;
}

void Cache::CheckInvariants() const {
  if (impl_) impl_->kv->CheckInvariants();
}

}  // namespace ashlar::cache
