// What the engine offers to whoever serves people: token ids in, token ids out. No text, no JSON.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/miss.h"
#include "model/sampling_params.h"

namespace ashlar::engine {

enum class LogitReport : std::uint8_t {
  kNone,
  kComputed,  // of the positions that are computed: not of those served from the cache
  kAll,       // of every prompt and completion position; nothing is served from the cache
};

// Goes on beyond the context: when it is full, the text is cut to its first `sinks` and its last
// `window` tokens, which are computed anew at the positions they then have (docs/decisions). Lossy,
// and told in Usage.
struct ContextStream {
  std::uint64_t sinks = 4;
  std::uint64_t window = 0;  // 0: half of the context
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  // at least one token
  model::SamplingParams sampling;
  std::uint64_t max_tokens = 16;  // tokens to generate at the most; 0 only computes the prompt
  std::vector<TokenId> stop_tokens = {};  // generating one of these ends the sequence; it is
                                          // reported as the last token, with FinishReason::kStop
  std::uint64_t min_tokens = 0;  // no stop token is generated before so many; at most max_tokens
  // Report the logprob of each generated token and of this many most likely ones.
  std::optional<std::uint32_t> top_logprobs = std::nullopt;
  // Report the same for every prompt token but the first (needs top_logprobs).
  bool prompt_logprobs = false;
  // Report raw logits (OnLogits). For checks and research.
  LogitReport report_logits = LogitReport::kNone;
  // Prefixes are shared only between requests with the same salt. A secret of the tenant; empty:
  // shared with all that have none. At most 4096 bytes.
  std::string cache_salt = {};
  // Prompt and completion may be longer than the context. Unset: refused. Not with prompt_logprobs
  // or report_logits.
  std::optional<ContextStream> stream = std::nullopt;
  // Lower is more urgent: goes first, and makes less urgent ones give way for memory or a place.
  std::int32_t priority = 0;
  // Of equal priority, tenants share the computed tokens by their weights. At most 256 bytes; empty
  // is the tenant of all that name none.
  std::string tenant = {};
  std::uint32_t tenant_weight = 1;  // 1 to 1000; the last one given counts for the tenant
  // When it ends, wherever it is then, with FinishReason::kDeadline: a time of the engine's clock.
  std::int64_t deadline_ns = 0;  // 0: none
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError, kDeadline };
inline constexpr std::size_t kFinishReasons = 5;
// "stop", "length", "cancelled", "error", "deadline"
std::string_view NameOf(FinishReason reason);

struct TokenLogprobs {
  TokenId token = 0;
  float logprob = 0;                           // natural log; of the model's own distribution
  std::vector<std::pair<TokenId, float>> top;  // most likely first, ties by lower id
};

// What a sequence held in a lane group, in bytes: at its end, and the most at once since it was
// last admitted.
struct KvGroupUse {
  std::uint64_t bytes = 0;
  std::uint64_t peak_bytes = 0;
};

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // prompt tokens served from the cache
  std::uint64_t completion_tokens = 0;
  std::int64_t queue_ns = 0;      // submitted to admitted
  std::int64_t ttft_ns = 0;       // submitted to first token
  std::int64_t prefill_ns = 0;    // admitted to first token
  std::int64_t decode_ns = 0;     // first to last token
  std::uint64_t kv_bytes = 0;     // bytes of the blocks the sequence held at its end
  std::uint64_t preemptions = 0;  // how often it gave its memory up and was resumed, or waited
                                  // for that at its end
  std::uint64_t recomputed_tokens = 0;  // computed again after them
  std::uint64_t dropped_tokens = 0;     // of the text, that ContextStream left behind
  std::uint64_t guessed_tokens = 0;     // computed ahead by prompt lookup
  std::uint64_t accepted_tokens = 0;    // of those, the ones that were right
};

// A sequence got a place and memory; again, when it had been preempted.
struct AdmissionRecord {
  RequestId id;
  kv::LookupReport lookup;  // what the cache served, and why not more
  bool is_resumed = false;
  std::int64_t queue_ns = 0;  // since it was submitted
};

// Receives what happens to one request, in order, on the engine's thread: must return quickly and
// must not call back into the service. OnFinish comes exactly once, last, for every accepted
// request.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnAdmitted(const AdmissionRecord& admission) { (void)admission; }
  // Once, before the first token, when prompt_logprobs was asked for; entry i is for prompt[i + 1].
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those who override it keep the value.
  virtual void OnPromptLogprobs(std::vector<TokenLogprobs> logprobs) { (void)logprobs; }
  // `logprobs` is null unless top_logprobs was asked for.
  virtual void OnToken(TokenId token, const TokenLogprobs* logprobs) = 0;
  // Logits [vocab] f32 of the token at `position` (0-based in prompt + completion), in order.
  virtual void OnLogits(std::uint64_t position, std::span<const float> logits) {
    (void)position, (void)logits;
  }
  // Once, right before OnFinish, when it holds memory then: by lane group.
  virtual void OnMemory(std::span<const KvGroupUse> groups) { (void)groups; }
  virtual void OnFinish(FinishReason reason, const Usage& usage, std::string_view error) = 0;
};

struct ServiceInfo {
  std::uint64_t vocab_size = 0;
  std::uint64_t max_context = 0;  // tokens of prompt + completion a sequence may have: the model's
                                  // context, or what the KV budget holds if that is less
  std::string kv_codec;           // "f16"
  std::uint64_t block_tokens = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t kv_bytes_reserved = 0;
  bool has_prefix_cache = true;
};

struct ServiceStats {
  std::uint64_t running = 0;
  std::uint64_t waiting = 0;
  std::uint64_t kv_bytes_used = 0;    // by running requests
  std::uint64_t kv_bytes_cached = 0;  // idle: kept for requests to come, given up when needed
  std::uint64_t kv_refused = 0;  // sequences ended because their keys or values were not finite

  // Counters since the start; they only rise.
  std::uint64_t steps = 0;
  std::int64_t plan_ns = 0;      // choosing, admitting, preempting; addresses of blocks
  std::int64_t forward_ns = 0;   // the model
  std::int64_t sample_ns = 0;    // tokens from logits, and telling sinks of them
  std::uint64_t admissions = 0;  // first ones, of sequences
  std::uint64_t preemptions = 0;
  std::uint64_t urgent_preemptions = 0;  // of these, for a more urgent sequence that waited
  std::uint64_t prefill_tokens = 0;      // computed, recomputed ones among them
  std::uint64_t recomputed_tokens = 0;   // of sequences that have ended
  std::uint64_t decode_tokens = 0;       // computed one after another
  std::uint64_t generated_tokens = 0;    // that sinks heard of
  std::uint64_t prompt_tokens = 0;       // of admitted sequences
  std::uint64_t cached_tokens = 0;       // of those, served from the cache
  std::uint64_t guessed_tokens = 0;      // computed ahead by prompt lookup
  std::uint64_t accepted_tokens = 0;     // of those, the ones that were right
  std::uint64_t context_cuts = 0;        // made by ContextStream
  std::array<std::uint64_t, kFinishReasons> finished = {};  // sequences, by FinishReason
};

struct Submission {
  GenerationRequest request;
  std::shared_ptr<EventSink> sink;
};

// Implementations may be called from any thread.
class Service {
 public:
  virtual ~Service() = default;

  virtual const ServiceInfo& info() const = 0;
  virtual ServiceStats stats() const = 0;

  // Queues all or, after an error, none: then no sink is ever called. Errors, at once and with the
  // arithmetic in the message: kInvalidArgument (empty prompt, token out of range, bad sampling
  // field, more tokens than the context or the KV budget can ever hold, more sequences than the
  // queue takes), kResourceExhausted (the queue is full now), kUnavailable (shutting down).
  virtual Result<std::vector<RequestId>> SubmitAll(std::vector<Submission> submissions) = 0;

  Result<RequestId> Submit(GenerationRequest request, std::shared_ptr<EventSink> sink) {
    std::vector<Submission> one;
    one.push_back({.request = std::move(request), .sink = std::move(sink)});
    ASHLAR_ASSIGN(const std::vector<RequestId> ids, SubmitAll(std::move(one)));
    return ids[0];
  }

  // Ends the request within one step, OnFinish(kCancelled) included. No effect once it has
  // finished.
  virtual void Cancel(RequestId id) = 0;
};

}  // namespace ashlar::engine
