#include "kv/testing/cache_ops.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "kv/testing/marks.h"

namespace ashlar::kv::testing {
namespace {

constexpr std::size_t kMaxLive = 12;
constexpr std::size_t kMaxLeases = 4;
constexpr std::uint64_t kMaxText = 220;

// Not inlined: GCC 12 then sees the error's string freed that is not there.
[[gnu::noinline]] EventReplica ReplicaOf(Snapshot snapshot) {
  return *EventReplica::FromSnapshot(std::move(snapshot));
}

LaneGroupSpec Group(std::string name, std::uint32_t layer, std::uint32_t layers,
                    std::uint32_t key_dim) {
  LaneGroupSpec spec{.name = std::move(name), .key_dim = key_dim, .value_dim = key_dim};
  for (std::uint32_t l = layer; l < layer + layers; ++l) spec.lanes.push_back({.layer = l});
  return spec;
}

LaneGroupSpec Windowed(LaneGroupSpec spec, std::uint64_t window, std::uint64_t sinks = 0) {
  spec.window = window;
  spec.sinks = sinks;
  return spec;
}

LaneGroupSpec Encoded(LaneGroupSpec spec, std::string_view key, std::string_view value) {
  spec.key_codec = *ParseKvCodec(key);
  spec.value_codec = *ParseKvCodec(value);
  return spec;
}

}  // namespace

KvLayoutSpec LayoutNamed(const std::string& name) {
  KvLayoutSpec spec;
  if (name == "full") {
    spec.groups = {Group("full", 0, 1, 8)};
  } else if (name == "window") {
    spec.groups = {Windowed(Group("window", 0, 1, 8), 40)};
  } else if (name == "sinks") {
    spec.groups = {Windowed(Group("sinks", 0, 1, 8), 33, 5)};
  } else if (name == "hybrid") {
    spec.groups = {Group("full", 0, 1, 8), Windowed(Group("window", 1, 3, 8), 24)};
  } else if (name == "mixed") {
    spec.groups = {Group("full", 0, 2, 8), Windowed(Group("narrow", 2, 5, 8), 17),
                   Windowed(Group("wide", 7, 1, 24), 64, 16), Group("latent", 8, 1, 40),
                   Windowed(Group("one", 9, 1, 8), 1)};
    spec.groups[3].value_dim = 0;
  } else if (name == "encoded") {
    spec.groups = {Encoded(Group("encoded", 0, 1, 8), "hq8", "q4")};
  } else if (name == "codecs") {
    spec.groups = {Group("raw", 0, 1, 8), Encoded(Group("both", 1, 2, 8), "kc2", "kc2"),
                   Windowed(Encoded(Group("key", 3, 1, 16), "q8", "f32"), 24, 5),
                   Windowed(Encoded(Group("value", 4, 1, 40), "f32", "lm3"), 1)};
  } else {
    ASHLAR_CHECK(false, "no layout '{}'", name);
  }
  return spec;
}

// The program: numbers come from its bytes, zeros when it has ended.
class CacheWorld::Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool ended() const { return at_ >= bytes_.size(); }
  std::uint64_t Below(std::uint64_t limit) {
    std::uint64_t value = ended() ? 0 : bytes_[at_++];
    if (limit > 256) value = value << 8 | (ended() ? 0 : bytes_[at_++]);
    return limit == 0 ? 0 : value % limit;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

CacheWorld::CacheWorld(const WorldOptions& options) : options_(options) {
  const KvLayout layout = *KvLayout::Create(options.layout);
  CacheOptions cache{.memory_bytes = options.memory_bytes,
                     .max_memory_bytes = options.max_memory_bytes,
                     .page_bytes = options.page_bytes,
                     .replacement = options.replacement,
                     .max_events = 64,
                     .hasher = options.hasher};
  if (options.has_limits) {
    cache.accounts = {{.name = "guarded", .floor_bytes = options.memory_bytes / 5},
                      {.name = "bounded",
                       .ceiling_bytes = options.ceiling_bytes > 0 ? options.ceiling_bytes
                                                                  : options.memory_bytes / 3}};
  }
  cache_ = *KvCache::Create(layout, cache, clock_);
  for (std::uint32_t i = 0; i < std::max(options.scopes, 3u); ++i) {
    Scope scope{.model_fingerprint = "m", .codec_spec = "f16"};
    if (i == 1) scope.tenant_salt = "s";
    if (i == 2) scope.adapter_digest = "s";
    if (i > 2) scope.tenant_salt = std::to_string(i);
    scopes_.push_back(scope);
    digests_.push_back(DigestOf(scope));
  }
  stored_.resize(scopes_.size());
}

CacheWorld::~CacheWorld() = default;

std::uint64_t CacheWorld::Run(std::span<const std::uint8_t> program, std::uint64_t max_ops) {
  Bytes bytes(program);
  std::uint64_t ops = 0;
  for (; ops < max_ops && !bytes.ended(); ++ops) {
    const std::uint64_t kind = bytes.Below(64);
    clock_.AdvanceNs(static_cast<std::int64_t>(bytes.Below(4)) * 40'000'000);
    if (live_.empty() || kind < 12) {
      Admit(bytes);
    } else {
      const std::size_t index = bytes.Below(live_.size());
      if (kind < 38) {
        Extend(bytes, live_[index]);
      } else if (kind < 44) {
        Cut(bytes, live_[index]);
      } else if (kind < 48) {
        ForkOne(bytes, live_[index]);
      } else if (kind < 56) {
        Release(index);
      } else if (kind < 63 || bytes.Below(4) != 0) {
        LookUp(bytes);
      } else {
        ChangeAll(bytes);
      }
    }
    if (!options_.is_checked) continue;
    ReplayEvents();
    if (ops % options_.check_every == 0) CheckAll();
  }
  if (options_.is_checked) CheckAll();
  return ops;
}

// Few texts and small alphabets, so that prefixes meet: a document, cut somewhere, and a suffix.
std::vector<TokenId> CacheWorld::MakeText(Bytes& bytes) {
  const std::uint64_t document = bytes.Below(4);
  const std::uint64_t shared = bytes.Below(kMaxText - 20);
  const std::uint64_t own = 1 + bytes.Below(20);
  const std::uint64_t flavour = bytes.Below(3);
  std::vector<TokenId> text;
  text.reserve(shared + own);
  for (std::uint64_t i = 0; i < shared; ++i) {
    text.push_back(static_cast<TokenId>(RandomBits(1, document, i) % 5));
  }
  for (std::uint64_t i = 0; i < own; ++i) {
    text.push_back(static_cast<TokenId>(RandomBits(2, flavour, i) % 5));
  }
  return text;
}

void CacheWorld::Store(std::uint32_t scope, std::span<const TokenId> tokens) {
  if (!options_.is_checked) return;
  TrieNode* node = &stored_[scope];
  for (const TokenId token : tokens) {
    std::unique_ptr<TrieNode>& next = node->next[token];
    if (!next) next = std::make_unique<TrieNode>();
    node = next.get();
  }
}

std::uint64_t CacheWorld::LongestStored(std::uint32_t scope,
                                        std::span<const TokenId> prompt) const {
  const TrieNode* node = &stored_[scope];
  std::uint64_t longest = 0;
  for (const TokenId token : prompt) {
    const auto next = node->next.find(token);
    if (next == node->next.end()) break;
    node = next->second.get();
    ++longest;
  }
  return std::min<std::uint64_t>(longest, prompt.size() - 1);
}

void CacheWorld::CheckContent(const Live& live) const {
  if (!options_.is_checked) return;
  const std::uint64_t size = live.tokens.size();
  live.sequence.CheckInvariants();
  ASHLAR_CHECK(live.sequence.size() == size, "{} tokens, expected {}", live.sequence.size(), size);
  ASHLAR_CHECK(std::ranges::equal(live.sequence.tokens(), live.tokens), "tokens differ");
  CheckMarks(live.sequence, cache_->layout(), SeedOf(live));
}

void CacheWorld::Admit(Bytes& bytes) {
  const auto scope = static_cast<std::uint32_t>(bytes.Below(scopes_.size()));
  const std::vector<TokenId> prompt = MakeText(bytes);
  AdmitOptions options{.max_tokens = prompt.size() + bytes.Below(60),
                       .chunk = 1 + bytes.Below(40),
                       .max_rollback = bytes.Below(2) * bytes.Below(20)};
  if (options_.has_limits) options.account = AccountId(static_cast<std::uint16_t>(bytes.Below(3)));
  options.retention = {.level = static_cast<std::uint8_t>(bytes.Below(kRetentionLevels)),
                       .ttl_ns = static_cast<std::int64_t>(bytes.Below(3)) * 300'000'000};
  const std::uint64_t reuse = bytes.Below(12);
  options.reuse = reuse == 0 ? Reuse::kOff : reuse == 1 ? Reuse::kStore : Reuse::kOn;
  options.on_pending = bytes.Below(2) == 0 ? OnPending::kWait : OnPending::kCompute;
  if (live_.size() >= kMaxLive) return;
  // Hashes are kept by prompt, as a waiting request would keep them.
  if (bytes.Below(4) == 0) hashes_ = {};
  const bool keeps_hashes = prompt == hashed_prompt_ && scope == hashed_scope_;
  if (!keeps_hashes) hashes_ = {};
  hashed_prompt_ = prompt;
  hashed_scope_ = scope;
  const Prompt query{
      .scope = scopes_[scope], .digest = digests_[scope], .tokens = prompt, .hashes = &hashes_};
  LookupReport probe;
  if (options_.is_checked) probe = cache_->Probe(query);
  Admission admission = cache_->Admit(query, options);
  std::uint64_t longest = options_.is_checked ? LongestStored(scope, prompt) : prompt.size() - 1;
  if (cache_->layout().has_encoded()) longest -= longest % cache_->layout().block_tokens();
  ASHLAR_CHECK(admission.report.prompt_tokens == prompt.size(), "a report of another prompt");
  if (admission.status != AdmitStatus::kAdmitted) {
    (admission.status == AdmitStatus::kWait ? waits_ : refusals_) += 1;
    ASHLAR_CHECK(admission.status != AdmitStatus::kWait || !live_.empty(), "waits for nobody");
    return;
  }
  const std::uint64_t hit = admission.sequence->size();
  hits_ += hit;
  ASHLAR_CHECK(hit <= longest, "hit {} of {} stored tokens", hit, longest);
  ASHLAR_CHECK(admission.report.hit_tokens == hit, "reported {}", admission.report.hit_tokens);
  if (options.reuse == Reuse::kOn && options_.is_checked) {
    ASHLAR_CHECK(hit <= probe.hit_tokens, "hit {}, probed {}", hit, probe.hit_tokens);
    ASHLAR_CHECK(!options_.is_roomy || hit == longest, "hit {}, {} are stored", hit, longest);
  } else if (options.reuse != Reuse::kOn) {
    ASHLAR_CHECK(hit == 0, "a hit without reuse");
  }
  Live live{.sequence = *std::move(admission.sequence),
            .scope = scope,
            .reuses = options.reuse != Reuse::kOff,
            .max_tokens = options.max_tokens,
            .chunk = options.chunk,
            .max_rollback = options.max_rollback,
            .stored_from = hit,
            .longest = hit,
            .tokens = {prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(hit)},
            .prompt = prompt,
            .tail = std::make_shared<int>(0)};
  CheckContent(live);
  live_.push_back(std::move(live));
}

void CacheWorld::Extend(Bytes& bytes, Live& live) {
  const std::uint64_t size = live.tokens.size();
  std::uint64_t count = 1 + bytes.Below(live.chunk);
  const bool is_promised = size + count <= live.max_tokens;
  if (!is_promised && bytes.Below(2) == 0 && size < live.max_tokens) {
    count = live.max_tokens - size;
  }
  const bool keeps_prompt = bytes.Below(16) != 0;
  const std::uint64_t flavour = bytes.Below(3);
  if (!live.sequence.Prepare(count)) {
    ASHLAR_CHECK(size + count > live.max_tokens, "a promise of {} tokens broken at {}",
                 live.max_tokens, size + count);
    ++refusals_;
    return;
  }
  const std::uint64_t block_tokens = cache_->layout().block_tokens();
  std::vector<TokenId> more;
  for (std::uint64_t i = size; i < size + count; ++i) {
    const bool is_prompt = keeps_prompt && i < live.prompt.size();
    more.push_back(is_prompt ? live.prompt[i]
                             : static_cast<TokenId>(RandomBits(3, flavour, i) % 5));
  }
  live.tokens.insert(live.tokens.end(), more.begin(), more.end());
  if (options_.is_checked) {
    WriteMarks(live.sequence, cache_->layout(), SeedOf(live), live.tokens, size);
  }
  live.longest = std::max<std::uint64_t>(live.longest, live.tokens.size());
  // Some of them may turn out wrong, as in speculation.
  const std::uint64_t wrong = bytes.Below(1 + std::min(live.max_rollback, count - 1));
  more.resize(count - wrong);
  live.tokens.resize(size + more.size());
  if (!std::equal(live.tokens.begin(), live.tokens.end(), live.prompt.begin(),
                  live.prompt.begin() + static_cast<std::ptrdiff_t>(
                                            std::min(live.prompt.size(), live.tokens.size())))) {
    live.prompt.clear();
  }
  live.tail = std::make_shared<int>(0);
  live.sequence.Commit(more);
  if (live.reuses) {
    Store(live.scope,
          std::span(live.tokens).first(live.tokens.size() / block_tokens * block_tokens));
  }
  CheckContent(live);
}

void CacheWorld::ForkOne(Bytes& bytes, Live& live) {
  const std::uint64_t max_tokens = live.tokens.size() + bytes.Below(60);
  if (live_.size() >= kMaxLive) return;
  std::vector<std::uint64_t> needed;
  live.sequence.BlocksNeededToFork(max_tokens, needed);
  std::vector<std::uint64_t> before;
  before.reserve(needed.size());
  for (std::uint32_t g = 0; g < needed.size(); ++g) {
    before.push_back(cache_->core().pool.pinned(g) + cache_->core().pool.promised(g));
  }
  std::optional<Sequence> fork = live.sequence.Fork(max_tokens);
  for (std::uint32_t g = 0; g < needed.size(); ++g) {
    const std::uint64_t now = cache_->core().pool.pinned(g) + cache_->core().pool.promised(g);
    ASHLAR_CHECK(now == before[g] + (fork ? needed[g] : 0), "group {}: {} more than {}, not {}", g,
                 now, before[g], needed[g]);
  }
  if (!fork) {
    ++refusals_;
    return;
  }
  Live other{.sequence = *std::move(fork),
             .scope = live.scope,
             .reuses = live.reuses,
             .max_tokens = max_tokens,
             .chunk = live.chunk,
             .max_rollback = live.max_rollback,
             .stored_from = live.stored_from,
             .longest = live.longest,
             .tokens = live.tokens,
             .prompt = {},
             .tail = live.tail};
  live_.push_back(std::move(other));
}

void CacheWorld::Cut(Bytes& bytes, Live& live) {
  const std::uint64_t old = live.tokens.size();
  const std::uint64_t back = bytes.Below(4) == 0 ? bytes.Below(old + 1) : bytes.Below(12);
  const std::uint64_t wanted = old - std::min(old, back);
  const std::optional<std::uint64_t> size = live.sequence.Truncate(wanted);
  if (!size) {
    ++refusals_;
    CheckContent(live);
    return;
  }
  const std::uint64_t block_tokens = cache_->layout().block_tokens();
  bool has_windows = false;
  for (const LaneGroup& group : cache_->layout().groups()) has_windows |= group.has_window();
  // Further back only where a window or an encoded block has given something up, ...
  const bool is_exact = !cache_->layout().has_encoded() || wanted % block_tokens == 0;
  const std::uint64_t least = is_exact ? wanted : wanted / block_tokens * block_tokens;
  ASHLAR_CHECK(*size <= wanted && (has_windows || *size >= least), "cut to {}, asked for {}", *size,
               wanted);
  // ... and never as far as was promised.
  const bool is_promised = wanted >= live.stored_from && wanted + live.max_rollback >= live.longest;
  ASHLAR_CHECK(!is_promised || *size == wanted, "cut to {}, asked for {}, from {} at the most",
               *size, wanted, live.longest);
  live.stored_from = std::min(live.stored_from, *size);
  if (*size != old) live.prompt.clear();
  if (*size / block_tokens != old / block_tokens || *size % block_tokens == 0) {
    live.tail = std::make_shared<int>(0);
  }
  live.tokens.resize(*size);
  CheckContent(live);
}

void CacheWorld::Release(std::size_t index) {
  std::swap(live_[index], live_.back());
  Live& live = live_.back();
  const std::uint64_t block_tokens = cache_->layout().block_tokens();
  // An open block that others still share stays theirs.
  const bool keeps_tail = live.tail.use_count() == 1;
  const std::uint64_t kept =
      keeps_tail ? live.tokens.size() : live.tokens.size() / block_tokens * block_tokens;
  if (live.reuses) Store(live.scope, std::span(live.tokens).first(kept));
  live_.pop_back();
}

void CacheWorld::LookUp(Bytes& bytes) {
  const std::uint64_t kind = bytes.Below(4);
  if (kind == 0 && !pins_.empty()) {
    const std::size_t index = bytes.Below(pins_.size());
    const PinId pin = pins_[index];
    ASHLAR_CHECK(cache_->Unpin(pin).ok(), "a pin is there");
    ASHLAR_CHECK(!cache_->Unpin(pin).ok(), "a pin goes once");
    pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(index));
    return;
  }
  if (kind == 1 && !leases_.empty()) {
    leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(bytes.Below(leases_.size())));
    return;
  }
  const auto scope = static_cast<std::uint32_t>(bytes.Below(scopes_.size()));
  const std::vector<TokenId> prompt = MakeText(bytes);
  LookupReport report;
  PrefixLease lease =
      cache_->Lookup({.scope = scopes_[scope], .digest = digests_[scope], .tokens = prompt},
                     kCommonAccount, &report);
  ASHLAR_CHECK(lease.tokens() <= report.hit_tokens, "leased {}, hit {}", lease.tokens(),
               report.hit_tokens);
  if (lease.empty()) return;
  if (kind == 2 && pins_.size() < kMaxLeases) {
    if (const auto pin = cache_->Pin(std::move(lease)); pin.ok()) pins_.push_back(*pin);
  } else if (leases_.size() < kMaxLeases) {
    leases_.push_back(std::move(lease));
  }
}

void CacheWorld::ChangeAll(Bytes& bytes) {
  const std::uint64_t kind = bytes.Below(6);
  const bool forgets = kind < 3;
  if (kind == 0) {
    cache_->ResetAll();
  } else if (kind == 1) {
    cache_->Invalidate();
  } else if (kind == 2) {
    const bool is_busy = !live_.empty() || !leases_.empty() || !pins_.empty();
    const bool is_reset = cache_->Reset();
    ASHLAR_CHECK(is_reset == !is_busy, "reset: {}, busy: {}", is_reset, is_busy);
    if (!is_reset) return;
  } else if (options_.max_memory_bytes > options_.memory_bytes) {
    const std::uint64_t least = options_.memory_bytes / 4;
    const std::uint64_t bytes_now =
        least + bytes.Below(1000) * (options_.max_memory_bytes - least) / 1000;
    const std::uint64_t before = cache_->memory_bytes();
    const Status status = cache_->Resize(bytes_now);
    ASHLAR_CHECK(cache_->memory_bytes() == (status.ok() ? bytes_now : before), "resized to {}",
                 cache_->memory_bytes());
    return;
  }
  if (!forgets) return;
  // What live sequences hold is not found any more, by anyone.
  for (TrieNode& root : stored_) root.next.clear();
  for (Live& live : live_) live.reuses = live.reuses && kind == 2;
}

void CacheWorld::ReplayEvents() {
  std::vector<KvEvent> events;
  const std::optional<Gap> gap = cache_->events().Read(replica_.sequence() + 1, 1000, events);
  if (gap) {
    replica_ = ReplicaOf(cache_->TakeSnapshot());
    return;
  }
  for (const KvEvent& event : events) {
    const Status status = replica_.Apply(event);
    ASHLAR_CHECK(status.ok(), "event {}: {}", event.sequence, status.error().message);
  }
}

void CacheWorld::CheckAll() {
  cache_->CheckInvariants();
  for (const Live& live : live_) CheckContent(live);
  const MemoryReport report = cache_->Account();
  std::uint64_t bytes =
      report.free_slot_bytes + report.slack_bytes + report.free_page_bytes + report.remainder_bytes;
  for (const MemoryRow& row : report.rows) bytes += row.bytes;
  ASHLAR_CHECK(bytes == report.arena_bytes, "{} bytes accounted for, {} there are", bytes,
               report.arena_bytes);
  // Nobody but sequences has open blocks, taken or promised.
  std::uint64_t open_blocks = 0;
  for (const Live& live : live_) {
    open_blocks += cache_->layout().OpenBlocks(live.max_rollback);
  }
  for (std::uint32_t g = cache_->core().groups(); g < cache_->core().store_groups(); ++g) {
    const BlockPool& pool = cache_->core().pool;
    ASHLAR_CHECK(pool.pinned(g) + pool.promised(g) == open_blocks,
                 "{} open blocks taken and {} promised, not {}", pool.pinned(g), pool.promised(g),
                 open_blocks);
  }
  Snapshot truth = cache_->TakeSnapshot();
  Snapshot replayed = replica_.TakeSnapshot();
  const auto by_key = [](const SnapshotEntry& a, const SnapshotEntry& b) {
    return std::pair(a.key, a.group) < std::pair(b.key, b.group);
  };
  std::ranges::sort(truth.entries, by_key);
  std::ranges::sort(replayed.entries, by_key);
  ASHLAR_CHECK(std::ranges::equal(truth.entries, replayed.entries,
                                  [](const SnapshotEntry& a, const SnapshotEntry& b) {
                                    return a.key == b.key && a.parent == b.parent &&
                                           a.group == b.group && a.account == b.account &&
                                           a.tokens == b.tokens;
                                  }),
               "{} entries replayed, {} there are", replayed.entries.size(), truth.entries.size());
}

}  // namespace ashlar::kv::testing
