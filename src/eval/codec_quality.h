// What a codec costs in quality, measured: the same text through the same model, once with keys and
// values kept in f32 and once for every codec, compared position by position (teacher-forced: every
// position sees the text's own tokens before it, never what a model would have said).
//
//   for each window, for each chunk of it:   f32 cache: logits --+
//                                            codec 1:   logits --+--> Compare, row by row
//                                            codec 2:   logits --+
//
// All caches go through a window in lockstep, so that the logits of one chunk only are ever kept.
// A query sees what it would see when serving (sealed blocks encoded, its own open block raw):
// that is the forward pass's rule, in chunks of any size, and nothing here goes around it. So the
// figures are the same bits for every chunk size and number of threads.
//
// Memory beside the weights (QualityReport.memory_bytes): 2 x chunk x vocab x 4 bytes of logits;
// for every codec and the reference one window of cache and the forward pass's workspace; 16 bytes
// per codec and scored position.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "eval/cached_model.h"
#include "eval/windows.h"

namespace ashlar::eval {

inline constexpr std::size_t kMaxCodecs = 32;
// In all windows together: what is kept per position stays below 512 MiB.
inline constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 20;
inline constexpr std::uint32_t kMaxChunkTokens = 4096;

struct QualityOptions {
  std::vector<std::string> codecs;  // specs, each once
  std::uint32_t block_tokens = 16;
  std::uint32_t chunk_tokens = 128;  // computed at a time
  // Positions at the front of a window that are computed but not scored: with little text before
  // them they say more about the text than about the cache.
  std::uint32_t skip_tokens = 64;
};

// One codec against the f32 cache. Standard errors take positions as independent.
struct CodecQuality {
  std::string codec;
  std::uint64_t kv_bytes_per_token = 0;  // true bytes, scales and padding included
  std::uint64_t positions = 0;           // scored: all those with a next token, but the skipped
  double mean_kl_nats = 0;
  double mean_kl_stderr_nats = 0;
  double p99_kl_nats = 0;  // the least that 99 % of positions do not exceed
  double max_kl_nats = 0;
  double same_top1_share = 0;  // 0 to 1
  double perplexity_f32 = 0;
  double perplexity = 0;
  // 100 (exp(mean of the differences of log-likelihood) - 1); the error by the delta method,
  // paired.
  double perplexity_change_percent = 0;
  double perplexity_change_stderr_percent = 0;
};

struct QualityReport {
  std::vector<CodecQuality> codecs;  // in the order asked for
  std::uint64_t memory_bytes = 0;    // beside the weights
};

using OnProgress = FunctionRef<void(std::uint64_t done_tokens, std::uint64_t all_tokens)>;

// Errors: kInvalidArgument for options out of range, a codec that does not exist or is named twice,
// a window longer than the model's context; kCorrupt, naming codec and position, when logits are
// not finite; kUnsupported, naming the codec, when its format does not hold the model's keys or
// values; kResourceExhausted. Precondition: windows as CutWindows gives them, for this model.
Result<QualityReport> MeasureCodecs(const Machine& machine, const Windows& windows,
                                    const QualityOptions& options, OnProgress on_progress);

// What is kept of one codec: [positions] each.
struct PositionScores {
  std::vector<double> kl_nats;
  std::vector<double> nll_nats;
  std::uint64_t same_top = 0;
};

// The figures of CodecQuality that follow from the scores. `reference_nll_nats` [positions].
// Precondition: at least one position.
CodecQuality Summarize(const PositionScores& scores, std::span<const double> reference_nll_nats);

}  // namespace ashlar::eval
