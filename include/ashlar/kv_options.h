// What the calls of kv_cache.h take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace ashlar::cache {

// --- Cache::Create ---

// Where the bytes of the blocks are.
enum class Storage : std::uint8_t {
  kOwned,          // the cache's: memory_bytes are reserved, blocks have addresses
  kDecisionsOnly,  // yours (a GPU's, say), by block id: the cache counts bytes and holds none.
                   // Copies that it would have made are yours to make: Cache::TakeCopies. An id is
                   // a block of one group now and may be another's later: where groups differ in
                   // block_bytes, give every id room for the largest, or map memory behind ids
};

enum class Replacement : std::uint8_t { kLru, kFifo, kLfu, kSlru, kS3Fifo, kSieve, kCostAware };

// A tenant's share of the memory.
struct AccountLimits {
  std::string name;
  std::uint64_t floor_bytes = 0;  // others never take these
  std::uint64_t ceiling_bytes = std::numeric_limits<std::uint64_t>::max();
};

struct CacheOptions {
  std::uint64_t memory_bytes = 0;      // the hard cap: at least a largest block for each group
  std::uint64_t max_memory_bytes = 0;  // what Resize may raise it to; 0: memory_bytes
  Storage storage = Storage::kOwned;
  Replacement replacement = Replacement::kLru;
  std::vector<AccountLimits> accounts = {};  // accounts 1, 2, ...: at most 255
  std::uint64_t max_pinned_bytes = 0;        // of Pin; 0: a quarter of the memory
  std::uint64_t max_events = 0;              // kept for readers, at most 2^22; 0: no events
  // Nanoseconds; must not throw. What goes back counts as standing still. Empty: a steady clock.
  std::function<std::int64_t()> now_ns = {};
};
// What the cache may need beside memory_bytes to know its blocks: about 250 bytes and the tokens'
// ids for each block of the smallest kind that max_memory_bytes could hold, and for each event.
inline constexpr std::uint64_t kMaxBookkeepingBytes = std::uint64_t{4} << 30;

// --- Requests ---

// Everybody without limits of their own.
inline constexpr std::uint16_t kCommonAccount = 0;

// What must be equal, besides tokens, before one request may read the KV of another. Strings up to
// 4096 bytes.
struct Scope {
  std::string model;                 // which weights: a digest of the model file, say
  std::uint64_t weights_epoch = 0;   // counts changes of the weights in place
  std::string codec;                 // how K and V are stored, e.g. "f16"
  std::uint32_t layout_version = 0;  // how a block's bytes are arranged
  std::string tenant_salt;           // empty: shared with all who have none. Never printed
  std::string adapter;               // LoRA and the like; empty: the plain model

  friend bool operator==(const Scope&, const Scope&) = default;
};

struct Retention {
  std::uint8_t level = 3;   // 0 leaves first, 7 last
  std::int64_t ttl_ns = 0;  // how long the level lasts once idle; 0: for good. Up to 2^60
};

enum class Reuse : std::uint8_t {
  kOn,   // serve from the cache, and leave the blocks in it
  kOff,  // compute everything, and leave nothing
};
// What to do while another sequence is computing a part of the same prompt.
enum class OnPending : std::uint8_t { kWait, kCompute };

struct AdmitOptions {
  std::uint64_t max_tokens = 0;    // stored at the most: at least 1 and the prompt
  std::uint64_t chunk = 512;       // the most tokens of one Prepare. Windows make it cost memory
  std::uint64_t max_rollback = 0;  // tokens that Truncate can always take back, windows or not
  std::uint16_t account = kCommonAccount;
  Retention retention = {};
  Reuse reuse = Reuse::kOn;
  OnPending on_pending = OnPending::kWait;
};

// --- Block ids ---

// Plain integers below Cache::max_blocks(), ready to be handed to a kernel. An id means the same
// content from the call that gave it to the one that gives it back.
using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = 0xFFFFFFFF;  // where a window has passed

struct BlockCopy {
  std::uint32_t group = 0;
  BlockId source = kNoBlock;
  BlockId target = kNoBlock;
};
// That wait for TakeCopies; at this number Admit and Prepare fail with kLimit.
inline constexpr std::size_t kMaxWaitingCopies = 65'536;

}  // namespace ashlar::cache
