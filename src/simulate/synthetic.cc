#include "simulate/synthetic.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::simulate {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 24;  // of any length or count but requests
constexpr std::uint64_t kMaxRequests = 1'000'000'000;
constexpr double kMaxSeconds = 1e6;
constexpr std::uint64_t kMaxPromptTokens = std::uint64_t{1} << 26;

// Streams of draws under one seed.
enum Stream : std::uint64_t {
  kPrefixIds,
  kDocumentIds,
  kTurnIds,
  kGaps,
  kPauses,
  kTurns,
  kDocuments,
  kPromptLengths,
  kOutputLengths
};

std::uint64_t Draw(const LengthRange& range, std::uint64_t bits) {
  return range.least + bits % (range.most - range.least + 1);
}

std::uint64_t BlocksOf(std::uint64_t tokens) {
  return (tokens + SyntheticOptions::kBlockTokens - 1) / SyntheticOptions::kBlockTokens;
}

struct Conversation {
  double next_ms = 0;
  std::uint64_t number = 0;
  std::uint64_t turn = 0;
  std::uint64_t turns = 1;
  std::vector<std::uint64_t> ids;  // of all so far

  bool operator>(const Conversation& other) const {
    return std::pair(next_ms, number) > std::pair(other.next_ms, other.number);
  }
};

class SyntheticSource final : public trace::Source {
 public:
  explicit SyntheticSource(const SyntheticOptions& options) : options_(options) {}

  Result<bool> Next(trace::Request& request) override {
    if (requests_ == options_.requests) return false;
    while (open_.empty() || begin_ms_ <= open_.top().next_ms) Begin();
    Conversation conversation = open_.top();
    open_.pop();
    Ask(conversation, request);
    if (++conversation.turn < conversation.turns) {
      conversation.next_ms += Exponential(kPauses, requests_) * options_.pause_s * 1000;
      open_.push(std::move(conversation));
    }
    ++requests_;
    return true;
  }

 private:
  std::uint64_t Bits(Stream stream, std::uint64_t index) const {
    return RandomBits(options_.seed, stream, index);
  }
  // Of mean 1.
  double Exponential(Stream stream, std::uint64_t index) const {
    return -std::log1p(-RandomUnit(options_.seed, stream, index));
  }

  void Begin() {
    Conversation conversation = {.next_ms = begin_ms_,
                                 .number = begun_,
                                 .turns = Draw(options_.turns, Bits(kTurns, begun_))};
    AddText(conversation, Bits(kPrefixIds, begun_ % options_.prefixes), options_.prefix_tokens);
    if (options_.documents > 0) {
      AddText(conversation, Bits(kDocumentIds, PopularDocument()), options_.document_tokens);
    }
    open_.push(std::move(conversation));
    begin_ms_ += Exponential(kGaps, begun_) * 1000 / options_.conversations_per_s;
    ++begun_;
  }

  // Rank r is asked for about as 1/r (Zipf).
  std::uint64_t PopularDocument() const {
    const double unit = RandomUnit(options_.seed, kDocuments, begun_);
    const double rank = std::exp(unit * std::log(static_cast<double>(options_.documents) + 1));
    return std::min<std::uint64_t>(static_cast<std::uint64_t>(rank) - 1, options_.documents - 1);
  }

  // The ids that follow name the text, behind whatever is before it.
  static void AddText(Conversation& conversation, std::uint64_t text, std::uint64_t tokens) {
    std::uint64_t before = conversation.ids.empty() ? 0 : conversation.ids.back();
    for (std::uint64_t i = 0; i < BlocksOf(tokens); ++i) {
      before = MixBits(before ^ MixBits(text ^ i));
      conversation.ids.push_back(before);
    }
  }

  void Ask(Conversation& conversation, trace::Request& request) {
    const bool is_first = conversation.turn == 0;
    const LengthRange& length = is_first ? options_.prompt_tokens : options_.turn_tokens;
    const std::uint64_t prompt = Draw(length, Bits(kPromptLengths, requests_));
    const std::uint64_t output = Draw(options_.output_tokens, Bits(kOutputLengths, requests_));
    AddText(conversation, Bits(kTurnIds, 2 * requests_), prompt);
    const std::uint64_t prompt_blocks = conversation.ids.size();
    AddText(conversation, Bits(kTurnIds, 2 * requests_ + 1), output);
    const std::uint64_t output_tokens = BlocksOf(output) * SyntheticOptions::kBlockTokens;
    request = {.timestamp_ms = conversation.next_ms,
               .input_tokens = prompt_blocks * SyntheticOptions::kBlockTokens,
               .output_tokens = output_tokens,
               .max_tokens = output_tokens,
               .hash_ids = conversation.ids};
    if (request.input_tokens > kMaxPromptTokens) conversation.turns = 0;  // it ends here
  }

  const SyntheticOptions options_;
  std::priority_queue<Conversation, std::vector<Conversation>, std::greater<>> open_;
  double begin_ms_ = 0;  // of the next conversation
  std::uint64_t begun_ = 0;
  std::uint64_t requests_ = 0;
};

Error Bad(std::string_view what, double value, double least, double most) {
  return MakeError(ErrorCode::kInvalidArgument, "{} is {:g}; it must be {:g} to {:g}", what, value,
                   least, most);
}

Status CheckCount(std::string_view what, std::uint64_t value, std::uint64_t least,
                  std::uint64_t most = kMost) {
  if (value >= least && value <= most) return {};
  return Bad(what, static_cast<double>(value), static_cast<double>(least),
             static_cast<double>(most));
}

Status CheckRange(std::string_view what, const LengthRange& range) {
  ASHLAR_TRY(CheckCount(what, range.least, 1));
  return CheckCount(what, range.most, range.least);
}

}  // namespace

Result<SyntheticOptions> SyntheticPreset(std::string_view name) {
  if (name == "shared-prompt") {
    return SyntheticOptions{.prefix_tokens = 1024, .prompt_tokens = {32, 512}};
  }
  if (name == "chat") {
    return SyntheticOptions{.prefix_tokens = 256,
                            .prompt_tokens = {32, 512},
                            .turns = {1, 8},
                            .output_tokens = {64, 512},
                            .pause_s = 30};
  }
  if (name == "rag") {
    return SyntheticOptions{.prefix_tokens = 256,
                            .documents = 1000,
                            .document_tokens = 4096,
                            .prompt_tokens = {16, 128},
                            .output_tokens = {64, 256}};
  }
  if (name == "agent") {
    return SyntheticOptions{.conversations_per_s = 0.2,
                            .prefix_tokens = 4096,
                            .prefixes = 4,
                            .prompt_tokens = {64, 512},
                            .turns = {4, 24},
                            .turn_tokens = {64, 1024},
                            .output_tokens = {32, 256},
                            .pause_s = 4};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "there is no workload '{}'; there are shared-prompt, chat, rag and agent", name);
}

Status Validate(const SyntheticOptions& options) {
  ASHLAR_TRY(CheckCount("the number of requests", options.requests, 1, kMaxRequests));
  ASHLAR_TRY(CheckCount("the prefix's tokens", options.prefix_tokens, 0));
  ASHLAR_TRY(CheckCount("the number of prefixes", options.prefixes, 1));
  ASHLAR_TRY(CheckCount("the number of documents", options.documents, 0));
  ASHLAR_TRY(CheckCount("a document's tokens", options.document_tokens, 0));
  ASHLAR_TRY(CheckRange("the prompt's tokens", options.prompt_tokens));
  ASHLAR_TRY(CheckRange("the number of turns", options.turns));
  ASHLAR_TRY(CheckRange("a turn's tokens", options.turn_tokens));
  ASHLAR_TRY(CheckRange("the output's tokens", options.output_tokens));
  if (!(options.conversations_per_s >= 1e-6 && options.conversations_per_s <= kMaxSeconds)) {
    return Bad("conversations per second", options.conversations_per_s, 1e-6, kMaxSeconds);
  }
  if (!(options.pause_s >= 0 && options.pause_s <= kMaxSeconds)) {
    return Bad("the pause in seconds", options.pause_s, 0, kMaxSeconds);
  }
  return {};
}

std::unique_ptr<trace::Source> MakeSynthetic(const SyntheticOptions& options) {
  ASHLAR_CHECK(Validate(options).ok(), "synthetic workload");
  return std::make_unique<SyntheticSource>(options);
}

}  // namespace ashlar::simulate
