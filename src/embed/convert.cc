#include "embed/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace ashlar::cache {
namespace {

using internal::Fail;

constexpr std::int64_t kMaxTtlNs = std::int64_t{1} << 60;  // 36 years
constexpr std::uint64_t kBytesPerBlock = 256;              // a bound of what the core keeps of each

// The public enums mirror the core's: a new value there must be given a name here.
static_assert(static_cast<int>(kv::MissReason::kDisabled) ==
              static_cast<int>(MissReason::kDisabled));
static_assert(static_cast<int>(kv::ReplacementKind::kCostAware) ==
              static_cast<int>(Replacement::kCostAware));
static_assert(static_cast<int>(kv::KvEventKind::kCleared) == static_cast<int>(EventKind::kCleared));

template <typename Enum>
bool IsBeyond(Enum value, Enum last) {
  return static_cast<int>(value) > static_cast<int>(last);
}

kv::LookupReport ToKv(const LookupReport& report) {
  return {.prompt_tokens = report.prompt_tokens,
          .hit_tokens = report.hit_tokens,
          .reason = static_cast<kv::MissReason>(report.reason),
          .position = report.position,
          .time_ns = report.time_ns,
          .pending_tokens = report.pending_tokens};
}

std::optional<Error> FaultOfSizes(const kv::KvLayout& layout, const CacheOptions& options) {
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t largest = 0;
  for (const kv::LaneGroup& group : layout.groups()) {
    smallest = std::min<std::uint64_t>(smallest, group.block_bytes());
    largest = std::max<std::uint64_t>(largest, group.block_bytes());
  }
  const std::uint64_t least = largest * layout.groups().size();
  if (options.memory_bytes < least) {
    return Fail(ErrorCode::kInvalidArgument,
                "memory_bytes is {}; it must be at least {}: a block of {} bytes for each of {} "
                "groups",
                options.memory_bytes, least, largest, layout.groups().size());
  }
  if (options.max_memory_bytes != 0 && options.max_memory_bytes < options.memory_bytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "max_memory_bytes is {}; it must be 0 or at least memory_bytes, {}",
                options.max_memory_bytes, options.memory_bytes);
  }
  const std::uint64_t bytes = std::max(options.memory_bytes, options.max_memory_bytes);
  const std::uint64_t token_bytes = layout.block_tokens() * sizeof(TokenId);
  const std::uint64_t per_block = kBytesPerBlock + token_bytes + 8 * layout.groups().size();
  const std::uint64_t per_event = kBytesPerBlock + token_bytes;
  if (bytes / smallest > kMaxBookkeepingBytes / per_block ||
      options.max_events > kMaxBookkeepingBytes / per_event) {
    return Fail(ErrorCode::kLimit,
                "{} blocks of {} bytes and {} events need more than {} bytes to be kept in order; "
                "give less memory, larger blocks or fewer events",
                bytes / smallest, smallest, options.max_events, kMaxBookkeepingBytes);
  }
  return std::nullopt;
}

}  // namespace

std::string_view NameOf(MissReason reason) {
  return IsBeyond(reason, MissReason::kDisabled) ? "unknown"
                                                 : kv::NameOf(static_cast<kv::MissReason>(reason));
}

std::string LookupReport::Explain() const {
  if (IsBeyond(reason, MissReason::kDisabled)) return "unknown";
  return ToKv(*this).Explain();
}

std::string_view NameOf(BlockState state) {
  constexpr std::array<std::string_view, 3> kNames = {"open", "shared", "idle"};
  return IsBeyond(state, BlockState::kIdle) ? "unknown" : kNames[static_cast<std::size_t>(state)];
}

std::uint64_t MemoryReport::BytesIn(BlockState state) const {
  std::uint64_t bytes = 0;
  for (const MemoryRow& row : rows) bytes += row.state == state ? row.bytes : 0;
  return bytes;
}

namespace internal {

Error FromKv(ashlar::Error error) {
  const auto code = [&error] {
    switch (error.code) {
      case ashlar::ErrorCode::kNotFound:
        return ErrorCode::kNotFound;
      case ashlar::ErrorCode::kUnsupported:
        return ErrorCode::kUnsupported;
      case ashlar::ErrorCode::kResourceExhausted:
        return ErrorCode::kLimit;
      default:
        return ErrorCode::kInvalidArgument;
    }
  }();
  return Error{code, std::move(error.message)};
}

Expected<kv::CacheOptions> ToKv(const kv::KvLayout& layout, const CacheOptions& options) {
  if (IsBeyond(options.replacement, Replacement::kCostAware) ||
      IsBeyond(options.storage, Storage::kDecisionsOnly)) {
    return Fail(ErrorCode::kInvalidArgument, "replacement {}, storage {}: there is no such kind",
                static_cast<int>(options.replacement), static_cast<int>(options.storage));
  }
  if (const std::optional<Error> fault = FaultOfSizes(layout, options)) return *fault;
  kv::CacheOptions made{.memory_bytes = options.memory_bytes,
                        .max_memory_bytes = options.max_memory_bytes,
                        .has_bytes = options.storage == Storage::kOwned,
                        .replacement = static_cast<kv::ReplacementKind>(options.replacement),
                        .max_pinned_bytes = options.max_pinned_bytes,
                        .max_events = options.max_events};
  for (const AccountLimits& limits : options.accounts) {
    if (limits.floor_bytes > options.memory_bytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  "account '{}': floor_bytes is {}; it must be at most memory_bytes, {}",
                  limits.name, limits.floor_bytes, options.memory_bytes);
    }
    made.accounts.push_back({.name = limits.name,
                             .floor_bytes = limits.floor_bytes,
                             .ceiling_bytes = limits.ceiling_bytes});
  }
  return made;
}

Expected<kv::Scope> ToKv(const Scope& scope) {
  kv::Scope made{.model_fingerprint = scope.model,
                 .weights_epoch = scope.weights_epoch,
                 .codec_spec = scope.codec,
                 .layout_version = scope.layout_version,
                 .tenant_salt = scope.tenant_salt,
                 .adapter_digest = scope.adapter};
  ashlar::Status valid = kv::Validate(made);
  if (!valid.ok()) return FromKv(std::move(valid).error());
  return made;
}

Expected<kv::AdmitOptions> ToKv(const AdmitOptions& options) {
  struct Field {
    std::string_view name;
    std::uint64_t value;
    std::uint64_t least;
  };
  for (const Field& field :
       {Field{"max_tokens", options.max_tokens, 1}, Field{"chunk", options.chunk, 1},
        Field{"max_rollback", options.max_rollback, 0}}) {
    if (field.value < field.least || field.value > kMaxTokens) {
      return Fail(ErrorCode::kInvalidArgument, "{} is {}; it must be {} to {}", field.name,
                  field.value, field.least, kMaxTokens);
    }
  }
  if (options.retention.level >= kv::kRetentionLevels || options.retention.ttl_ns < 0 ||
      options.retention.ttl_ns > kMaxTtlNs) {
    return Fail(ErrorCode::kInvalidArgument,
                "retention: level {} for {} ns; a level is 0 to {}, a time 0 to {}",
                options.retention.level, options.retention.ttl_ns, kv::kRetentionLevels - 1,
                kMaxTtlNs);
  }
  if (IsBeyond(options.reuse, Reuse::kOff) || IsBeyond(options.on_pending, OnPending::kCompute)) {
    return Fail(ErrorCode::kInvalidArgument,
                "reuse {} and on_pending {}; they must be values of their enumerations",
                static_cast<int>(options.reuse), static_cast<int>(options.on_pending));
  }
  return kv::AdmitOptions{
      .max_tokens = options.max_tokens,
      .chunk = options.chunk,
      .max_rollback = options.max_rollback,
      .account = kv::AccountId(options.account),
      .retention = {.level = options.retention.level, .ttl_ns = options.retention.ttl_ns},
      .reuse = options.reuse == Reuse::kOff ? kv::Reuse::kOff : kv::Reuse::kOn,
      .on_pending = options.on_pending == OnPending::kCompute ? kv::OnPending::kCompute
                                                              : kv::OnPending::kWait};
}

LookupReport FromKv(const kv::LookupReport& report) {
  return {.prompt_tokens = report.prompt_tokens,
          .hit_tokens = report.hit_tokens,
          .reason = static_cast<MissReason>(report.reason),
          .position = report.position,
          .time_ns = report.time_ns,
          .pending_tokens = report.pending_tokens};
}

MemoryReport FromKv(const kv::MemoryReport& report) {
  MemoryReport made{.memory_bytes = report.arena_bytes,
                    .free_slot_bytes = report.free_slot_bytes,
                    .slack_bytes = report.slack_bytes,
                    .free_page_bytes = report.free_page_bytes,
                    .remainder_bytes = report.remainder_bytes};
  for (const kv::MemoryRow& row : report.rows) {
    const BlockState state = row.state == kv::BlockState::kOpen     ? BlockState::kOpen
                             : row.state == kv::BlockState::kShared ? BlockState::kShared
                                                                    : BlockState::kIdle;
    made.rows.push_back(
        {.account = row.account.value(), .group = row.group, .state = state, .bytes = row.bytes});
  }
  return made;
}

Counters FromKv(const kv::CacheCounters& counters) {
  return {.admitted = counters.admitted,
          .prompt_tokens = counters.prompt_tokens,
          .hit_tokens = counters.hit_tokens,
          .taken_blocks = counters.taken_blocks,
          .sealed_blocks = counters.sealed_blocks,
          .replaced_blocks = counters.replaced_blocks,
          .copied_blocks = counters.copied_blocks,
          .converged_blocks = counters.converged_blocks,
          .unindexed_blocks = counters.unindexed_blocks};
}

Event FromKv(const kv::KvEvent& event) {
  return {.sequence = event.sequence,
          .kind = static_cast<EventKind>(event.kind),
          .key = event.key.bytes,
          .parent = event.parent.bytes,
          .group = event.group,
          .account = event.account.value(),
          .tokens = {event.tokens.begin(), event.tokens.end()},
          .time_ns = event.time_ns};
}

SnapshotEntry FromKv(kv::SnapshotEntry entry) {
  return {.key = entry.key.bytes,
          .parent = entry.parent.bytes,
          .group = entry.group,
          .account = entry.account.value(),
          .tokens = std::move(entry.tokens)};
}

}  // namespace internal
}  // namespace ashlar::cache
