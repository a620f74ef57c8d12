#include "eval/codec_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/aligned_array.h"
#include "base/check.h"
#include "eval/divergence.h"

namespace ashlar::eval {
namespace {

constexpr std::string_view kReference = "f32";

struct Estimate {
  double mean = 0;
  double standard_error = 0;  // 0 for one value
};

Estimate EstimateMean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double error = values.size() > 1 ? std::sqrt(squares / (count - 1.0) / count) : 0;
  return {.mean = mean, .standard_error = error};
}

Status Validate(const Machine& machine, const Windows& windows, const QualityOptions& options) {
  const auto bad = [](std::string message) {
    return Error{ErrorCode::kInvalidArgument, std::move(message)};
  };
  if (options.codecs.empty() || options.codecs.size() > kMaxCodecs) {
    return bad(
        fmt::format("{} codecs to measure; it must be 1 to {}", options.codecs.size(), kMaxCodecs));
  }
  for (std::size_t i = 0; i < options.codecs.size(); ++i) {
    if (std::ranges::count(options.codecs, options.codecs[i]) > 1) {
      return bad(fmt::format("codec '{}' is named twice", options.codecs[i]));
    }
  }
  if (options.chunk_tokens == 0 || options.chunk_tokens > kMaxChunkTokens) {
    return bad(fmt::format("chunks of {} tokens; it must be 1 to {}", options.chunk_tokens,
                           kMaxChunkTokens));
  }
  ASHLAR_CHECK(!windows.empty(), "no window");
  const std::uint64_t window = windows[0].size();
  if (window > machine.model.config().context) {
    return bad(fmt::format("a window of {} tokens is more than the model's context of {}", window,
                           machine.model.config().context));
  }
  if (std::uint64_t{options.skip_tokens} + 2 > window) {
    return bad(fmt::format("{} positions are skipped of a window of {} tokens; at most {} can be",
                           options.skip_tokens, window, window - 2));
  }
  if (window * windows.size() > kMaxTokens) {
    return bad(fmt::format("{} windows of {} tokens; at most {} tokens in all are measured",
                           windows.size(), window, kMaxTokens));
  }
  return {};
}

// The reference and all codecs, one chunk at a time.
class Measurement {
 public:
  static Result<std::unique_ptr<Measurement>> Create(const Machine& machine,
                                                     const QualityOptions& options,
                                                     std::size_t windows, std::size_t window);

  std::uint64_t memory_bytes() const;
  // Errors: kCorrupt for logits that are not finite, and those of CachedModel::Append.
  Status RunWindow(std::span<const TokenId> tokens, FunctionRef<void(std::uint64_t)> on_chunk);
  std::vector<CodecQuality> Summaries() const;

 private:
  struct Subject {
    std::unique_ptr<CachedModel> model;
    PositionScores scores;
  };

  Measurement(const Machine& machine, const QualityOptions& options)
      : machine_(machine),
        vocab_(machine.model.config().vocab),
        skip_(options.skip_tokens),
        chunk_(options.chunk_tokens) {}

  std::span<float> Rows(AlignedArray<float>& logits, std::size_t rows) const {
    return {logits.data(), rows * vocab_};
  }
  Status RunChunk(std::span<const TokenId> window, std::size_t from, std::size_t count);
  Status Score(Subject& subject, std::span<const TokenId> window, std::size_t from,
               std::size_t count);

  Machine machine_;
  std::size_t vocab_;
  std::size_t skip_;
  std::size_t chunk_;
  std::unique_ptr<CachedModel> reference_;
  std::vector<Subject> subjects_;
  AlignedArray<float> reference_logits_;  // [chunk, vocab]
  AlignedArray<float> logits_;            // [chunk, vocab]
  std::vector<TokenScore> row_scores_;    // [chunk]
  std::vector<double> reference_nll_nats_;
  std::size_t positions_ = 0;  // of all windows
};

Result<std::unique_ptr<Measurement>> Measurement::Create(const Machine& machine,
                                                         const QualityOptions& options,
                                                         std::size_t windows, std::size_t window) {
  std::unique_ptr<Measurement> made(new Measurement(machine, options));
  const CacheShape shape = {.block_tokens = options.block_tokens,
                            .max_tokens = window,
                            .chunk_tokens = options.chunk_tokens};
  made->positions_ = windows * (window - 1 - options.skip_tokens);
  Machine exact = machine;
  exact.activations = model::Activations::kF32;
  ASHLAR_ASSIGN(made->reference_, CachedModel::Create(exact, kReference, shape));
  for (const std::string& codec : options.codecs) {
    Subject subject;
    ASHLAR_ASSIGN(subject.model, CachedModel::Create(machine, codec, shape));
    subject.scores.kl_nats.reserve(made->positions_);
    subject.scores.nll_nats.reserve(made->positions_);
    made->subjects_.push_back(std::move(subject));
  }
  made->reference_nll_nats_.reserve(made->positions_);
  made->reference_logits_ = AlignedArray<float>(made->chunk_ * made->vocab_);
  made->logits_ = AlignedArray<float>(made->chunk_ * made->vocab_);
  made->row_scores_.resize(made->chunk_);
  return made;
}

std::uint64_t Measurement::memory_bytes() const {
  std::uint64_t bytes = reference_->memory_bytes() + reference_logits_.bytes() + logits_.bytes() +
                        row_scores_.size() * sizeof(TokenScore);
  for (const Subject& subject : subjects_) bytes += subject.model->memory_bytes();
  return bytes + (2 * subjects_.size() + 1) * positions_ * sizeof(double);
}

Status Measurement::RunWindow(std::span<const TokenId> tokens,
                              FunctionRef<void(std::uint64_t)> on_chunk) {
  reference_->Restart();
  for (const Subject& subject : subjects_) subject.model->Restart();
  // Nothing in the window follows its last token, so that is not computed.
  const std::size_t end = tokens.size() - 1;
  for (std::size_t at = 0; at < end; at += chunk_) {
    const std::size_t count = std::min(chunk_, end - at);
    ASHLAR_TRY(RunChunk(tokens, at, count));
    on_chunk(count);
  }
  return {};
}

Status Measurement::RunChunk(std::span<const TokenId> window, std::size_t from, std::size_t count) {
  const std::span<const TokenId> tokens = window.subspan(from, count);
  if (from + count <= skip_) {
    ASHLAR_TRY(reference_->Append(tokens, {}));
    for (const Subject& subject : subjects_) ASHLAR_TRY(subject.model->Append(tokens, {}));
    return {};
  }
  ASHLAR_TRY(reference_->Append(tokens, Rows(reference_logits_, count)));
  bool has_reference = false;
  for (Subject& subject : subjects_) {
    ASHLAR_TRY(subject.model->Append(tokens, Rows(logits_, count)));
    ASHLAR_TRY(Score(subject, window, from, count));
    const std::size_t first = from < skip_ ? skip_ - from : 0;
    for (std::size_t row = first; row < count && !has_reference; ++row) {
      reference_nll_nats_.push_back(row_scores_[row].reference_nll_nats);
    }
    has_reference = true;
  }
  return {};
}

// Rows are shared out to the threads; what is kept is kept in order of position.
Status Measurement::Score(Subject& subject, std::span<const TokenId> window, std::size_t from,
                          std::size_t count) {
  const std::size_t first = from < skip_ ? skip_ - from : 0;
  machine_.pool.ParallelFor(count - first, [&](std::size_t item, std::size_t) {
    const std::size_t row = first + item;
    row_scores_[row] = Compare({reference_logits_.data() + row * vocab_, vocab_},
                               {logits_.data() + row * vocab_, vocab_}, window[from + row + 1]);
  });
  for (std::size_t row = first; row < count; ++row) {
    const TokenScore& score = row_scores_[row];
    if (!score.IsFinite()) {
      return MakeError(ErrorCode::kCorrupt,
                       "codec '{}': the logits at position {} of a window, or those of the f32 "
                       "cache, are not finite numbers",
                       subject.model->spec(), from + row);
    }
    subject.scores.kl_nats.push_back(score.kl_nats);
    subject.scores.nll_nats.push_back(score.nll_nats);
    subject.scores.same_top += score.has_same_top ? 1 : 0;
  }
  return {};
}

std::vector<CodecQuality> Measurement::Summaries() const {
  std::vector<CodecQuality> summaries;
  for (const Subject& subject : subjects_) {
    CodecQuality quality = Summarize(subject.scores, reference_nll_nats_);
    quality.codec = subject.model->spec();
    quality.kv_bytes_per_token = subject.model->bytes_per_token();
    summaries.push_back(std::move(quality));
  }
  return summaries;
}

}  // namespace

CodecQuality Summarize(const PositionScores& scores, std::span<const double> reference_nll_nats) {
  const std::size_t count = scores.kl_nats.size();
  ASHLAR_CHECK(count > 0 && scores.nll_nats.size() == count && reference_nll_nats.size() == count,
               "{} divergences, {} and {} likelihoods", count, scores.nll_nats.size(),
               reference_nll_nats.size());
  std::vector<double> sorted = scores.kl_nats;
  std::ranges::sort(sorted);
  const std::size_t rank = (count * 99 + 99) / 100;  // the 99th percentile by nearest rank, from 1
  std::vector<double> differences(count);
  for (std::size_t i = 0; i < count; ++i) {
    differences[i] = scores.nll_nats[i] - reference_nll_nats[i];
  }
  const Estimate kl = EstimateMean(scores.kl_nats);
  const Estimate change = EstimateMean(differences);
  const double ratio = std::exp(change.mean);
  return {.positions = count,
          .mean_kl_nats = kl.mean,
          .mean_kl_stderr_nats = kl.standard_error,
          .p99_kl_nats = sorted[rank - 1],
          .max_kl_nats = sorted.back(),
          .same_top1_share = static_cast<double>(scores.same_top) / static_cast<double>(count),
          .perplexity_f32 = std::exp(EstimateMean(reference_nll_nats).mean),
          .perplexity = std::exp(EstimateMean(scores.nll_nats).mean),
          .perplexity_change_percent = 100.0 * std::expm1(change.mean),
          .perplexity_change_stderr_percent = 100.0 * ratio * change.standard_error};
}

Result<QualityReport> MeasureCodecs(const Machine& machine, const Windows& windows,
                                    const QualityOptions& options, OnProgress on_progress) {
  ASHLAR_TRY(Validate(machine, windows, options));
  const std::size_t window = windows[0].size();
  ASHLAR_ASSIGN(const auto measurement,
                Measurement::Create(machine, options, windows.size(), window));
  const std::uint64_t all = windows.size() * (window - 1);
  std::uint64_t done = 0;
  for (const std::vector<TokenId>& tokens : windows) {
    ASHLAR_CHECK(tokens.size() == window, "windows of {} and {} tokens", window, tokens.size());
    ASHLAR_TRY(measurement->RunWindow(tokens, [&](std::uint64_t count) {
      done += count;
      on_progress(done, all);
    }));
  }
  return QualityReport{.codecs = measurement->Summaries(),
                       .memory_bytes = measurement->memory_bytes()};
}

}  // namespace ashlar::eval
