#include "server/metric_catalog.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar::server {
namespace {

using enum prometheus::MetricType;

constexpr std::string_view kModel = "model_name, engine";

constexpr MetricInfo kCatalog[] = {
    // --- As vLLM names them ---
    {"vllm:num_requests_running", Gauge, "sequences", kModel,
     "Sequences that hold a place in the batch."},
    {"vllm:num_requests_waiting", Gauge, "sequences", kModel,
     "Sequences that wait to be admitted."},
    {"vllm:engine_sleep_state", Gauge, "", "model_name, engine, sleep_state",
     "1 for the state it is in: awake, or weights_offloaded (level 1: here the weights stay, the "
     "KV memory is given back); discard_all is never used."},
    {"vllm:kv_cache_usage_perc", Gauge, "share", kModel,
     "KV memory that running sequences hold, as a share of the arena; 1 is all of it."},
    {"vllm:prefix_cache_queries_total", Counter, "tokens", kModel,
     "Prompt tokens looked up in the prefix cache."},
    {"vllm:prefix_cache_hits_total", Counter, "tokens", kModel,
     "Prompt tokens served from the prefix cache."},
    {"vllm:num_preemptions_total", Counter, "preemptions", kModel,
     "Times a running sequence gave its memory up."},
    {"vllm:prompt_tokens_total", Counter, "tokens", kModel, "Prompt tokens of admitted sequences."},
    {"vllm:prompt_tokens_by_source_total", Counter, "tokens", "model_name, engine, source",
     "Prompt tokens by where they came from: local_compute, local_cache_hit."},
    {"vllm:prompt_tokens_cached_total", Counter, "tokens", kModel,
     "Prompt tokens that needed no computing."},
    {"vllm:generation_tokens_total", Counter, "tokens", kModel, "Tokens generated."},
    {"vllm:spec_decode_num_draft_tokens_total", Counter, "tokens", kModel,
     "Tokens computed ahead by prompt lookup."},
    {"vllm:spec_decode_num_accepted_tokens_total", Counter, "tokens", kModel,
     "Of these, the ones that were right."},
    {"vllm:request_success_total", Counter, "sequences", "model_name, engine, finished_reason",
     "Sequences that ended, by why: stop, length, abort, error."},
    {"vllm:iteration_tokens_total", Histogram, "tokens", kModel, "Tokens computed in a step."},
    {"vllm:request_prompt_tokens", Histogram, "tokens", kModel,
     "Prompt tokens of a sequence that ended."},
    {"vllm:request_generation_tokens", Histogram, "tokens", kModel,
     "Tokens generated for a sequence that ended."},
    {"vllm:request_max_num_generation_tokens", Histogram, "tokens", kModel,
     "The most tokens generated for any sequence of a request."},
    {"vllm:request_params_n", Histogram, "choices", kModel, "The request field n."},
    {"vllm:request_params_max_tokens", Histogram, "tokens", kModel,
     "The request field max_tokens, where given."},
    {"vllm:request_prefill_kv_computed_tokens", Histogram, "tokens", kModel,
     "Prompt tokens of a sequence that had to be computed."},
    {"vllm:time_to_first_token_seconds", Histogram, "seconds", kModel,
     "From the engine's queue to the first token."},
    {"vllm:inter_token_latency_seconds", Histogram, "seconds", kModel,
     "Between two tokens of a sequence."},
    {"vllm:request_time_per_output_token_seconds", Histogram, "seconds", kModel,
     "Mean time between the tokens of a sequence that ended."},
    {"vllm:e2e_request_latency_seconds", Histogram, "seconds", kModel,
     "From a request's arrival to the end of its sequence."},
    {"vllm:request_queue_time_seconds", Histogram, "seconds", kModel,
     "Waiting to be admitted, first time."},
    {"vllm:request_inference_time_seconds", Histogram, "seconds", kModel,
     "From admission to the last token."},
    {"vllm:request_prefill_time_seconds", Histogram, "seconds", kModel,
     "From admission to the first token."},
    {"vllm:request_decode_time_seconds", Histogram, "seconds", kModel,
     "From the first token to the last."},
    {"vllm:cache_config_info", Gauge, "",
     "model_name, engine, block_size, num_gpu_blocks, cache_dtype, enable_prefix_caching",
     "Always 1; its labels say how the cache is set up. num_gpu_blocks: blocks of all groups "
     "together that the arena holds."},

    // --- Memory ---
    {"ashlar:kv_arena_bytes", Gauge, "bytes", "", "The hard cap of KV memory."},
    {"ashlar:kv_bytes", Gauge, "bytes", "account, group, kind, state",
     "KV memory by owner and state; all series add up to the arena. Blocks are open, shared or "
     "idle; memory without an owner (account and group empty) is free_slot, free_page, slack (of "
     "pages, too small for a block) or remainder (too small for a page)."},
    {"ashlar:kv_promised_bytes", Gauge, "bytes", "",
     "Of idle and free memory, what running sequences may still take."},
    {"ashlar:kv_pinned_bytes", Gauge, "bytes", "", "Held by pinned prefixes."},
    {"ashlar:kv_fragmentation_ratio", Gauge, "share", "",
     "Of the arena, what no free page can give: free places in pages of a group, slack and "
     "remainder."},
    {"ashlar:kv_blocks_taken_total", Counter, "blocks", "", "Blocks taken to be filled."},
    {"ashlar:kv_blocks_sealed_total", Counter, "blocks", "", "Blocks filled."},
    {"ashlar:kv_blocks_replaced_total", Counter, "blocks", "",
     "Idle blocks that gave their memory up for others."},
    {"ashlar:kv_blocks_copied_total", Counter, "blocks", "",
     "Blocks copied: partial hits, and writes into shared ones."},
    {"ashlar:kv_blocks_converged_total", Counter, "blocks", "",
     "Blocks that two sequences computed and one keeps."},
    {"ashlar:kv_blocks_unindexed_total", Counter, "blocks", "",
     "Blocks sealed while the index was full: no prefix finds them."},
    {"ashlar:kv_blocks_moved_total", Counter, "blocks", "",
     "Blocks moved so that a page became free."},
    {"ashlar:kv_refused_total", Counter, "sequences", "",
     "Sequences ended because keys or values did not fit the codec's format."},

    // --- Prefixes ---
    {"ashlar:prefix_hit_tokens_total", Counter, "tokens", "tier",
     "Prompt tokens served from the cache, by tier."},
    {"ashlar:prefix_misses_total", Counter, "admissions", "reason",
     "Admissions by why no more was served; none: all but the last token was."},
    {"ashlar:prefix_missed_tokens_total", Counter, "tokens", "reason",
     "Tokens that had to be computed at admission, by why no more was served."},
    {"ashlar:kv_events_total", Counter, "events", "",
     "Changes of the prefix index told to readers of /kv/events."},
    {"ashlar:kv_event_streams", Gauge, "streams", "", "Open streams of /kv/events."},
    {"ashlar:kv_event_streams_cut_total", Counter, "streams", "",
     "Streams of /kv/events cut because they read too slowly."},

    // --- Steps ---
    {"ashlar:steps_total", Counter, "steps", "", "Steps that computed something."},
    {"ashlar:step_seconds", Histogram, "seconds", "", "How long a step takes."},
    {"ashlar:step_part_seconds_total", Counter, "seconds", "part",
     "Time in steps by part: plan (admitting, preempting, addresses), forward (the model), sample "
     "(tokens, and telling of them)."},
    {"ashlar:preemptions_total", Counter, "preemptions", "kind",
     "Times a running sequence gave its memory up, by for whom: growth (one that runs and needed "
     "more), urgency (a more urgent one that waited)."},
    {"ashlar:computed_tokens_total", Counter, "tokens", "kind",
     "Tokens computed, by kind: prefill, decode."},
    {"ashlar:recomputed_tokens_total", Counter, "tokens", "",
     "Tokens computed again after a preemption, of sequences that have ended."},
    {"ashlar:context_cuts_total", Counter, "cuts", "",
     "Times the middle of a text longer than the context was left behind, where that was asked "
     "for."},
    {"ashlar:sequences_ended_total", Counter, "sequences", "reason",
     "Sequences by how the engine ended them."},

    // --- HTTP ---
    {"ashlar:http_requests_total", Counter, "requests", "method, route, status",
     "Requests answered; route other: no such path; status 0: the client left before any answer."},
    {"ashlar:http_request_seconds", Histogram, "seconds", "route",
     "From a request's arrival to the end of its answer."},
    {"ashlar:http_refused_total", Counter, "requests", "status",
     "Answers given before a route was known: malformed, too large, too many."},

    // --- The process ---
    {"ashlar:build_info", Gauge, "", "version, kv_codec", "Always 1."},
    {"process_start_time_seconds", Gauge, "seconds", "", "When the process started, since 1970."},
    {"process_cpu_seconds_total", Counter, "seconds", "", "Processor time, of user and system."},
    {"process_resident_memory_bytes", Gauge, "bytes", "", "Memory that is resident."},
    {"process_virtual_memory_bytes", Gauge, "bytes", "", "Address space."},
    {"process_open_fds", Gauge, "files", "", "Open files and sockets."},
};

}  // namespace

std::span<const MetricInfo> MetricCatalog() { return kCatalog; }

const MetricInfo& MetricNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kCatalog, name, &MetricInfo::name);
  ASHLAR_CHECK(found != std::end(kCatalog), "no metric {} in the catalogue", name);
  return *found;
}

}  // namespace ashlar::server
