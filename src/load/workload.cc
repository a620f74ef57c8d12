#include "load/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::load {
namespace {

// Which draw it is: streams of RandomBits under one seed.
enum Stream : std::uint64_t {
  kPrefixText,
  kTurnText,
  kBlockText,
  kPromptLength,
  kOutputLength,
  kNameText
};

std::uint64_t Draw(const LengthRange& range, std::uint64_t seed, Stream stream,
                   std::uint64_t index) {
  ASHLAR_CHECK(range.least <= range.most, "{} to {}", range.least, range.most);
  return range.least + RandomBits(seed, stream, index) % (range.most - range.least + 1);
}

class SyntheticWorkload final : public Workload {
 public:
  SyntheticWorkload(const SyntheticOptions& options, TextMaker text)
      : options_(options), text_(std::move(text)) {}

  std::size_t conversations() const override { return options_.conversations; }
  std::size_t requests() const override { return options_.conversations * options_.turns; }

  std::vector<Turn> Turns(std::size_t index) const override {
    index += options_.first;
    std::vector<Turn> turns;
    turns.reserve(options_.turns);
    for (std::size_t i = 0; i < options_.turns; ++i) {
      const std::uint64_t draw = index * options_.turns + i;
      const LengthRange& range = i == 0 ? options_.prompt_tokens : options_.turn_tokens;
      std::string text;
      if (i == 0 && options_.prefix_tokens > 0) {
        const std::uint64_t seed =
            RandomBits(options_.seed, kPrefixText, index % options_.prefixes);
        text = text_.Text(seed, options_.prefix_tokens);
      }
      text += text_.Text(RandomBits(options_.seed, kTurnText, draw),
                         Draw(range, options_.seed, kPromptLength, draw));
      turns.push_back(
          {.text = std::move(text),
           .max_tokens = Draw(options_.output_tokens, options_.seed, kOutputLength, draw)});
    }
    return turns;
  }

 private:
  const SyntheticOptions options_;
  const TextMaker text_;
};

class TraceWorkload final : public Workload {
 public:
  TraceWorkload(std::vector<trace::Request> trace, const TraceWorkloadOptions& options,
                TextMaker text)
      : trace_(std::move(trace)), options_(options), text_(std::move(text)) {}

  std::size_t conversations() const override { return trace_.size(); }
  std::size_t requests() const override { return trace_.size(); }

  std::vector<Turn> Turns(std::size_t index) const override {
    const trace::Request& request = trace_[index];
    const std::uint64_t block = Scaled(options_.block_tokens);
    std::uint64_t left = Scaled(request.input_tokens);
    std::string text;
    if (!request.prefixes.empty()) {
      for (std::size_t i = 0; i < std::min<std::uint64_t>(left, request.input_tokens); ++i) {
        text += text_.Text(RandomBits(options_.seed, kNameText, request.prefixes[i]), 1);
      }
    } else if (request.hash_ids.empty()) {
      text = text_.Text(RandomBits(options_.seed, kTurnText, index), left);
    }
    for (const std::uint64_t id : request.hash_ids) {
      const std::uint64_t tokens = std::min(block, left);
      text += text_.Text(RandomBits(options_.seed, kBlockText, id), tokens);
      left -= tokens;
      if (left == 0) break;
    }
    return {{.text = std::move(text),
             .max_tokens = Scaled(std::max<std::uint64_t>(request.output_tokens, 1))}};
  }

 private:
  std::uint64_t Scaled(std::uint64_t tokens) const {
    return static_cast<std::uint64_t>(
        std::max(1.0, std::round(static_cast<double>(tokens) * options_.length_scale)));
  }

  const std::vector<trace::Request> trace_;
  const TraceWorkloadOptions options_;
  const TextMaker text_;
};

}  // namespace

std::unique_ptr<Workload> MakeSyntheticWorkload(const SyntheticOptions& options, TextMaker text) {
  ASHLAR_CHECK(options.turns > 0 && options.prefixes > 0, "no turns or no prefixes");
  return std::make_unique<SyntheticWorkload>(options, std::move(text));
}

std::unique_ptr<Workload> MakeTraceWorkload(std::vector<trace::Request> trace,
                                            const TraceWorkloadOptions& options, TextMaker text) {
  return std::make_unique<TraceWorkload>(std::move(trace), options, std::move(text));
}

std::vector<std::int64_t> TraceArrivals(const std::vector<trace::Request>& trace,
                                        double time_scale) {
  ASHLAR_CHECK(time_scale > 0, "{}", time_scale);
  constexpr double kNsPerMs = 1e6;
  std::vector<std::int64_t> arrivals;
  arrivals.reserve(trace.size());
  for (const trace::Request& request : trace) {
    const double ms = (request.timestamp_ms - trace.front().timestamp_ms) * time_scale;
    arrivals.push_back(static_cast<std::int64_t>(std::min(ms * kNsPerMs, 9e18)));
  }
  return arrivals;
}

}  // namespace ashlar::load
