#include "kv/cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::kv {

namespace {

// Memory for that many tokens of a sequence is taken when it is admitted; longer ones grow.
constexpr std::uint64_t kReservedTokens = std::uint64_t{1} << 18;

}  // namespace

Result<std::unique_ptr<KvCache>> KvCache::Create(const KvLayout& layout,
                                                 const CacheOptions& options, const Clock& clock) {
  ASHLAR_ASSIGN(std::unique_ptr<CacheCore> core, CacheCore::Create(layout, options, clock));
  return std::unique_ptr<KvCache>(new KvCache(std::move(core)));
}

KvCache::KvCache(std::unique_ptr<CacheCore> core) : core_(std::move(core)), matcher_(*core_) {}

KvCache::~KvCache() {
  pins_.clear();
  ASHLAR_CHECK(live_sequences_ == 0 && core_->leases == 0,
               "{} sequences and {} leases outlive their cache", live_sequences_, core_->leases);
}

// --- Prompts ---

PrefixHashes& KvCache::HashesOf(const Prompt& prompt) {
  if (prompt.hashes != nullptr) return *prompt.hashes;
  hashes_.blocks.clear();  // they were another prompt's
  return hashes_;
}

LookupReport KvCache::Probe(const Prompt& prompt) {
  return matcher_.Find(prompt.scope, prompt.digest, prompt.tokens, HashesOf(prompt)).report;
}

PrefixLease KvCache::Lookup(const Prompt& prompt, AccountId account, LookupReport* report) {
  core_->UpdateTime();
  const Match& match = matcher_.Find(prompt.scope, prompt.digest, prompt.tokens, HashesOf(prompt));
  if (report != nullptr) *report = match.report;
  return PrefixLease::Take(*core_, std::span(match.path).first(match.whole_blocks), account);
}

void KvCache::BlocksNeeded(const AdmitOptions& options, std::vector<std::uint64_t>& blocks) const {
  core_->layout.PeakBlocks(
      {.tokens = options.max_tokens, .chunk = options.chunk, .max_rollback = options.max_rollback},
      blocks);
}

bool KvCache::CouldEverFit(const AdmitOptions& options) const {
  std::vector<std::uint64_t> blocks;
  BlocksNeeded(options, blocks);
  return core_->pool.CouldEverFit(options.account, blocks);
}

std::uint64_t KvCache::MaxTokens(std::uint64_t limit, std::uint64_t chunk,
                                 std::uint64_t max_rollback) const {
  std::uint64_t fits = 0;
  for (std::uint64_t above = limit + 1; above - fits > 1;) {
    const std::uint64_t middle = fits + (above - fits) / 2;
    const bool can_fit =
        CouldEverFit({.max_tokens = middle, .chunk = chunk, .max_rollback = max_rollback});
    (can_fit ? fits : above) = middle;
  }
  return fits;
}

Admission KvCache::Admit(const Prompt& prompt, const AdmitOptions& options) {
  ASHLAR_CHECK(options.max_tokens >= prompt.tokens.size() &&
                   options.max_tokens <= kMaxSequenceTokens && options.chunk > 0 &&
                   options.chunk <= kMaxSequenceTokens &&
                   options.max_rollback <= kMaxSequenceTokens,
               "{} tokens admitted for {} in chunks of {}, going back {}", prompt.tokens.size(),
               options.max_tokens, options.chunk, options.max_rollback);
  ASHLAR_CHECK(options.account.value() < core_->pool.accounts() &&
                   options.retention.level < kRetentionLevels,
               "account {}, retention level {}", options.account.value(), options.retention.level);
  core_->UpdateTime();
  PrefixHashes& hashes = HashesOf(prompt);
  Admission admission;
  // Before the search: making a root may replace something.
  const NodeId root = options.reuse == Reuse::kOff
                          ? kNoNode
                          : core_->FindOrMakeRoot(prompt.scope, prompt.digest).value_or(kNoNode);
  if (root != kNoNode) core_->index.AddReference(root);
  const Match& match = options.reuse == Reuse::kOn
                           ? matcher_.Find(prompt.scope, prompt.digest, prompt.tokens, hashes)
                           : matcher_.FindNothing(prompt.digest, prompt.tokens, hashes);
  admission.report = match.report;
  if (match.report.pending_tokens > 0 && options.on_pending == OnPending::kWait) {
    admission.status = AdmitStatus::kWait;
  } else if (auto state = Start(prompt, options, {.match = match, .root = root})) {
    if (state->size < match.tokens) {  // no room for a copy of the part
      Release(std::move(state));
      state = Start(prompt, options, {.match = matcher_.WithoutPart(), .root = root});
      ASHLAR_CHECK(state, "what was given back is not there");
      admission.report.hit_tokens = admission.report.position = state->size;
      admission.report.reason = MissReason::kNoRoom;
    }
    if (root != kNoNode) PromisePrompt(*state, prompt.tokens, hashes, match);
    ++core_->counters.admitted;
    core_->counters.prompt_tokens += prompt.tokens.size();
    core_->counters.hit_tokens += state->size;
    admission.status = AdmitStatus::kAdmitted;
    admission.sequence = Sequence(this, std::move(state));
  }
  if (root != kNoNode) {
    core_->index.DropReference(root);
    core_->RemoveUnneeded(root);
  }
  return admission;
}

// With the blocks of the match, and the rest promised. Null, and nothing changed, without memory.
std::unique_ptr<SequenceState> KvCache::Start(const Prompt& prompt, const AdmitOptions& options,
                                              const Beginning& beginning) {
  const Match& match = beginning.match;
  BlocksNeeded(options, needed_);
  for (const NodeId node : match.path) {
    for (std::uint32_t g = 0; g < core_->groups(); ++g) {
      if (core_->layout.group(g).has_window()) continue;
      if (!core_->needs_promise(core_->index.block(node, g), options.account)) --needed_[g];
    }
  }
  if (!core_->pool.Promise(options.account, needed_)) return nullptr;
  std::unique_ptr<SequenceState> state = NewState();
  state->max_tokens = options.max_tokens;
  state->chunk = options.chunk;
  state->max_rollback = options.max_rollback;
  state->has_copy_promise = options.max_rollback > 0;
  state->open_blocks = core_->layout.OpenBlocks(options.max_rollback);
  state->account = options.account;
  state->retention = options.retention;
  for (std::uint32_t g = 0; g < core_->groups(); ++g) state->tables[g].promised = needed_[g];
  const std::uint64_t reserved =
      std::min(std::max(options.max_tokens, options.likely_tokens), kReservedTokens);
  state->tokens.reserve(reserved);
  state->tokens.assign(prompt.tokens.begin(), prompt.tokens.end());
  for (SequenceState::Table& table : state->tables) {
    table.blocks.reserve(core_->layout.BlocksNeeded(reserved));
    table.addresses.reserve(core_->layout.BlocksNeeded(reserved));
  }
  // Held before anything is taken: taking may replace what the match does not pin.
  state->path = match.path.empty() ? beginning.root : match.path.back();
  if (state->path != kNoNode) core_->index.AddReference(state->path);
  PinMatch(*state, match);
  return state;
}

std::unique_ptr<SequenceState> KvCache::NewState() {
  std::unique_ptr<SequenceState> state;
  if (spare_states_.empty()) {
    state = std::make_unique<SequenceState>();
    state->tables.resize(core_->groups());
  } else {
    state = std::move(spare_states_.back());
    spare_states_.pop_back();
  }
  state->tokens.clear();
  state->size = 0;
  for (SequenceState::Table& table : state->tables) {
    table.blocks.clear();
    table.addresses.clear();
    table.open.clear();
    table.open_addresses.clear();
    table.first_live = 0;
    table.promised = 0;
    table.extra = 0;
    table.most_held = 0;
  }
  state->prepared = 0;
  state->raw_from = 0;
  state->has_copy_promise = false;
  state->path = kNoNode;
  state->promised.clear();
  state->hit_tokens = 0;
  state->moves = core_->pool.store().moves();
  ++live_sequences_;
  return state;
}

void KvCache::PinMatch(SequenceState& state, const Match& match) {
  const std::uint64_t whole = match.path.size();
  const std::uint64_t tokens = match.tokens;
  for (std::uint64_t number = 0; number < whole; ++number) {
    for (std::uint32_t g = 0; g < core_->groups(); ++g) {
      const LaneGroup& group = core_->layout.group(g);
      if (number < group.FirstLiveBlock(tokens) && number >= group.sink_blocks()) {
        Append(state, g, kNoBlock);
        continue;
      }
      const BlockId block = core_->index.block(match.path[number], g);
      if (core_->needs_promise(block, state.account)) state.tables[g].Spend();
      core_->PinCached(block, state.account);
      Append(state, g, block);
    }
  }
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    state.tables[g].first_live = core_->layout.group(g).FirstLiveBlock(tokens);
  }
  state.size = whole * core_->block_tokens();
  if (match.partial != kNoNode && CopyPart(state, match)) state.size = tokens;
  state.hit_tokens = state.size;
  state.raw_from = whole;  // none of these has been written here
  core_->MakeRoomBelowCeiling(state.account, 0);
}

// Copies the block that matches in part into one of the sequence's own. False, and nothing changed,
// when there is no room for it.
bool KvCache::CopyPart(SequenceState& state, const Match& match) {
  if (!core_->CopyNode(match.partial, state.account, copies_)) return false;
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    state.tables[g].Spend();
    Append(state, g, copies_[g]);
  }
  return true;
}

// The rest of the prompt is promised to the index, so that others wait for it; as far as that
// leaves room in the index for others.
void KvCache::PromisePrompt(SequenceState& state, std::span<const TokenId> prompt,
                            const PrefixHashes& hashes, const Match& match) {
  const std::uint64_t block_tokens = core_->block_tokens();
  NodeId node = state.path;
  state.promised_from = match.path.size();
  state.promised.reserve(hashes.blocks.size() - match.path.size());
  for (std::uint64_t i = match.path.size(); i < hashes.blocks.size(); ++i) {
    if (core_->index.nodes() > core_->index.max_nodes() / 4 * 3) return;
    const std::optional<NodeId> child = core_->FindOrMakeChild(
        node, hashes.blocks[i], prompt.subspan(i * block_tokens, block_tokens));
    if (!child) return;
    node = *child;
    core_->index.AddPromise(node);
    state.promised.push_back(node);
  }
}

// --- Pins ---

Result<PinId> KvCache::Pin(PrefixLease lease) {
  if (lease.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "an empty lease cannot be pinned");
  }
  const std::uint64_t bytes = lease.bytes();
  const std::uint64_t limit =
      core_->options.max_pinned_bytes > 0 ? core_->options.max_pinned_bytes : memory_bytes() / 4;
  if (bytes > limit - std::min(limit, pinned_bytes_)) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "a pin of {} bytes beside {} that are pinned; at most {} may be", bytes,
                     pinned_bytes_, limit);
  }
  auto slot = std::ranges::find_if(pins_, [](const Pinned& pin) { return pin.lease.empty(); });
  if (slot == pins_.end()) slot = pins_.insert(pins_.end(), Pinned{});
  slot->lease = std::move(lease);
  slot->bytes = bytes;
  ++slot->generation;
  pinned_bytes_ += bytes;
  return PinId{.slot = static_cast<std::uint32_t>(slot - pins_.begin()),
               .generation = slot->generation};
}

Status KvCache::Unpin(PinId pin) {
  if (pin.slot >= pins_.size() || pins_[pin.slot].generation != pin.generation ||
      pins_[pin.slot].lease.empty()) {
    return MakeError(ErrorCode::kNotFound, "there is no pin {}.{}, or not any more", pin.slot,
                     pin.generation);
  }
  pinned_bytes_ -= pins_[pin.slot].bytes;
  pins_[pin.slot].lease = PrefixLease();
  return {};
}

// --- The whole cache ---

bool KvCache::Reset() {
  if (live_sequences_ > 0) return false;
  for (std::uint32_t g = 0; g < core_->groups(); ++g) {
    if (core_->pool.pinned(g) > 0) return false;
  }
  core_->UpdateTime();
  core_->DropIdle();
  return true;
}

void KvCache::ResetAll() {
  core_->UpdateTime();
  core_->MarkAllStale();
  core_->DropIdle();
}

Status KvCache::Resize(std::uint64_t memory_bytes) {
  BlockStore& store = core_->pool.store();
  const std::uint64_t pages = memory_bytes / store.page_bytes();
  if (memory_bytes > store.max_memory_bytes()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV memory of {} bytes; it can be raised to {} at most", memory_bytes,
                     store.max_memory_bytes());
  }
  const std::uint64_t least =
      std::max<std::uint64_t>(core_->pool.live_pages(), core_->store_groups());
  if (pages < least) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "KV memory of {} bytes is less than the {} that are in use or promised, or "
                     "hold a page for each lane group",
                     memory_bytes, least * store.page_bytes());
  }
  core_->UpdateTime();
  if (pages < store.pages()) {
    const bool is_free = core_->FreePages(store.pages() - pages);
    ASHLAR_CHECK(is_free, "live blocks fit into {} pages and do not", pages);
  }
  const bool is_resized = store.Resize(memory_bytes);
  ASHLAR_CHECK(is_resized, "{} bytes", memory_bytes);
  return {};
}

std::uint64_t KvCache::live_bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint32_t g = 0; g < core_->store_groups(); ++g) {
    bytes += core_->pool.store().taken(g) * core_->layout.store_groups()[g].block_bytes;
  }
  return bytes - idle_bytes();
}

std::uint64_t KvCache::idle_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i <= core_->pool.accounts(); ++i) {
    const AccountId account =
        i < core_->pool.accounts() ? AccountId(static_cast<std::uint16_t>(i)) : kSharedAccount;
    for (std::uint32_t g = 0; g < core_->groups(); ++g) {
      bytes +=
          core_->pool.count(account, g, BlockState::kIdle) * core_->layout.group(g).block_bytes();
    }
  }
  return bytes;
}

MemoryReport KvCache::Account() const {
  const BlockPool& pool = core_->pool;
  const BlockStore& store = pool.store();
  MemoryReport report{.arena_bytes = store.memory_bytes()};
  for (std::size_t i = 0; i <= pool.accounts(); ++i) {
    const AccountId account =
        i < pool.accounts() ? AccountId(static_cast<std::uint16_t>(i)) : kSharedAccount;
    for (std::uint32_t g = 0; g < core_->store_groups(); ++g) {
      const StoreGroup& group = core_->layout.store_groups()[g];
      for (const BlockState state : {BlockState::kOpen, BlockState::kShared, BlockState::kIdle}) {
        const std::uint64_t blocks = pool.count(account, g, state);
        if (blocks == 0) continue;
        report.rows.push_back({.account = account,
                               .group = group.lane_group,
                               .is_open_blocks = group.is_open,
                               .state = state,
                               .bytes = blocks * group.block_bytes});
      }
    }
  }
  for (std::uint32_t g = 0; g < core_->store_groups(); ++g) {
    report.free_slot_bytes += store.free_slots(g) * core_->layout.store_groups()[g].block_bytes;
    report.slack_bytes += store.slack_bytes(g);
  }
  report.free_page_bytes = store.free_pages() * store.page_bytes();
  report.promised_bytes = pool.promised_bytes();
  report.remainder_bytes = store.memory_bytes() - store.pages() * store.page_bytes();
  return report;
}

Snapshot KvCache::TakeSnapshot() const {
  SnapshotPart all = TakeSnapshotPart(0, core_->index.max_nodes());
  return {.sequence = all.sequence, .entries = std::move(all.entries)};
}

SnapshotPart KvCache::TakeSnapshotPart(std::uint32_t first_node, std::uint32_t max_nodes) const {
  ASHLAR_CHECK(core_->events.is_on(), "a snapshot without events");
  const std::uint32_t end = first_node + std::min(max_nodes, core_->index.max_nodes() - first_node);
  SnapshotPart part{.sequence = core_->events.last_sequence(),
                    .entries = {},
                    .next = end,
                    .is_last = end == core_->index.max_nodes()};
  core_->index.ForEach(first_node, end, [&](NodeId node) {
    if (core_->index.parent(node) == kNoNode || !core_->is_reachable(node)) return;
    for (std::uint32_t g = 0; g < core_->groups(); ++g) {
      const BlockId block = core_->index.block(node, g);
      if (block == kNoBlock) continue;
      const std::span<const TokenId> tokens = core_->index.tokens(node);
      part.entries.push_back({.key = core_->KeyOf(node),
                              .parent = core_->KeyOf(core_->index.parent(node)),
                              .group = g,
                              .account = core_->StoredBy(block),
                              .tokens = {tokens.begin(), tokens.end()}});
    }
  });
  return part;
}

}  // namespace ashlar::kv
