// What operators ask of a running engine, and what it answers: values, never references into it.
//
//   Report            what was published last; never waits
//   all other calls   wait for the step that is running, then the engine's thread answers
//
// So a call may take as long as a step. Nothing here is on the way of a request.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/result.h"
#include "engine/service.h"
#include "engine/step_observer.h"
#include "kv/cache.h"
#include "kv/event_log.h"
#include "kv/miss.h"
#include "kv/snapshot_builder.h"
#include "kv/tree_summary.h"

namespace ashlar::engine {

// Seconds, but for step_tokens.
struct EngineHistograms {
  EngineHistograms();

  Histogram ttft;         // submitted to first token
  Histogram itl;          // between two tokens of a sequence
  Histogram queue;        // submitted to admitted, first time
  Histogram step;         // a step
  Histogram step_tokens;  // tokens computed in a step
};

struct EngineReport {
  std::int64_t time_ns = 0;  // of the engine's clock, when it was published
  ServiceStats stats;
  EngineHistograms histograms;
  kv::CacheCounters cache;
  kv::MemoryReport memory;
  std::vector<std::string> accounts;  // names, by account; "" is everybody else
  std::vector<std::string> groups;    // names, by lane group
  // By kv::MissReason: admitted sequences (resumed ones too), and prompt tokens of theirs that had
  // to be computed.
  std::array<std::uint64_t, kv::kMissReasons> misses = {};
  std::array<std::uint64_t, kv::kMissReasons> missed_tokens = {};
  std::uint64_t block_moves = 0;  // blocks that gave way for pages to become free
  std::uint64_t pinned_bytes = 0;
  std::uint64_t events = 0;        // number of the last one; 0: none, or events are off
  std::uint64_t oldest_event = 0;  // that can still be read
  bool is_sleeping = false;
};

// What one lane group's blocks are made of.
struct GroupState {
  std::string name;
  std::string keys, values;  // codecs
  std::uint64_t lanes = 0;
  std::uint64_t window_tokens = 0;  // 0: all tokens are kept
  std::uint64_t sink_tokens = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t open_block_bytes = 0;  // 0: raw, open blocks are its blocks
};

struct AccountState {
  std::string name;
  std::uint64_t floor_bytes = 0;
  std::uint64_t ceiling_bytes = 0;
  std::uint64_t held_bytes = 0;
  std::uint64_t live_bytes = 0;  // with promises
};

struct CacheState {
  kv::MemoryReport memory;
  kv::CacheCounters counters;
  std::uint64_t block_tokens = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t pages = 0;
  std::uint64_t free_pages = 0;
  std::uint64_t live_sequences = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t block_moves = 0;
  std::vector<GroupState> groups;
  std::vector<AccountState> accounts;
  kv::TreeSummary tree;
  std::int64_t tree_age_ns = 0;  // how old `tree` is: see kTreeShare
};

// Events copied out of the log.
struct EventBatch {
  EventBatch() = default;
  EventBatch(EventBatch&&) = default;
  EventBatch& operator=(EventBatch&&) = default;
  EventBatch(const EventBatch&) = delete;  // events point into tokens
  EventBatch& operator=(const EventBatch&) = delete;

  std::optional<kv::Gap> gap;  // then there are no events
  std::vector<kv::KvEvent> events;
  std::vector<TokenId> tokens;
  std::uint64_t oldest = 0;  // the first event the log still has, or the next to come
  std::uint64_t last = 0;    // its last
};

// What happened last; oldest first.
struct EngineTrace {
  std::int64_t now_ns = 0;
  std::vector<StepRecord> steps;
  std::vector<SequenceRecord> sequences;  // that ended within the steps' time
};

struct TraceWindow {
  std::size_t max_steps = 0;
  std::int64_t within_ns = 0;  // steps that began earlier are left out; 0: none are
};

enum class WhenBusy : std::uint8_t { kRefuse, kForce };

class Control {
 public:
  // Walks over the prefix tree take at most this share of the engine's time, however often they
  // are asked for; in between the last summary is told again.
  static constexpr double kTreeShare = 0.02;
  static constexpr std::size_t kMaxEventBatch = 4096;
  static constexpr std::uint32_t kMaxSnapshotNodes = 16'384;

  virtual ~Control() = default;

  // Published after steps, at least every 50 ms of them, and whenever the engine has nothing to do.
  // Never null.
  virtual std::shared_ptr<const EngineReport> Report() const = 0;

  // Of all below: kUnavailable while shutting down.
  virtual Result<CacheState> DescribeCache(std::size_t max_runs) = 0;
  // Up to min(max, kMaxEventBatch) events from a number on. kUnsupported: events are off.
  virtual Result<EventBatch> ReadEvents(std::uint64_t from, std::size_t max) = 0;
  // The state of up to min(max_nodes, kMaxSnapshotNodes) nodes of the index from one on, for a
  // kv::SnapshotBuilder: in parts, so that no step waits long. kUnsupported: events are off.
  virtual Result<kv::SnapshotPart> ReadSnapshotPart(std::uint32_t first_node,
                                                    std::uint32_t max_nodes) = 0;
  virtual Result<EngineTrace> ReadTrace(const TraceWindow& window) = 0;

  // Forgets every prefix. kRefuse: false, and nothing changed, while sequences run or wait. kForce:
  // they go on, and what they hold can never be found again.
  virtual Result<bool> ResetPrefixCache(WhenBusy when_busy) = 0;
  // Forgets every prefix and gives the arena's memory back to the system; until WakeUp submitting
  // is refused with kUnavailable. kRefuse: false, and nothing changed, while sequences run or wait;
  // kForce: they are cancelled. True when asleep already.
  virtual Result<bool> Sleep(WhenBusy when_busy) = 0;
  virtual Status WakeUp() = 0;
};

}  // namespace ashlar::engine
