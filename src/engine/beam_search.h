// Beam search over a Service: of the texts that go on from a prompt, the `width` likeliest are kept
// at every token.
//
//   round   every kept text asks for one token and the 2 * width likeliest ones
//   choose  all of those, ordered by score; ends of text are set aside, of the rest the first
//           `width` are kept
//   over    max_tokens, or nothing is kept: the n best of what was set aside and what is kept
//
// Each round's requests are ordinary ones whose text the cache knows but for its last token (in
// encoded blocks, its last block): kept texts share their blocks, and a text that is kept twice has
// split there. So a beam is scheduled, preempted, cancelled and accounted as any request is, and
// the result depends on the prompt alone.
//
// score = sum of log probabilities / length ^ length_penalty (Wu et al. 2016, arXiv:1609.08144,
// with a plain power), length in generated tokens without the end of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/service.h"

namespace ashlar::engine {

struct BeamOptions {
  std::uint32_t width = 4;  // 1 to kMaxBeamWidth
  std::uint32_t n = 1;      // texts returned, at most width
  double length_penalty = 1.0;
};
inline constexpr std::uint32_t kMaxBeamWidth = 64;

struct Beam {
  std::vector<TokenId> tokens;          // an end of text included
  std::vector<TokenLogprobs> logprobs;  // of them, with the alternatives that were seen
  double sum_logprobs = 0;
  FinishReason reason = FinishReason::kLength;  // kStop: it ends with an end of text
};

struct BeamResult {
  // kStop or kLength: there are beams. Else why there are none.
  FinishReason reason = FinishReason::kLength;
  std::string error;
  std::vector<Beam> beams;  // n or, where the texts ended early, fewer; the best first
  Usage usage;              // of the first round, with all rounds' completion tokens and times
};

class BeamSearch : public std::enable_shared_from_this<BeamSearch> {
 public:
  // Runs a function soon, on a thread that may call the service.
  using Post = std::function<void(std::function<void()>)>;
  // Once, on such a thread.
  using OnDone = std::function<void(BeamResult result)>;
  // What the cache served of the prompt. On the engine's thread, as EventSink's calls are.
  using OnAdmitted = std::function<void(const AdmissionRecord& admission)>;

  // `request` as for one text; of its sampling only the penalty-free greedy kind means anything
  // here, and it is ignored. Errors of the first round, at once: those of Service::SubmitAll; then
  // on_done is never called. kInvalidArgument: a width out of range.
  static Result<std::shared_ptr<BeamSearch>> Start(Service& service, Post post,
                                                   GenerationRequest request,
                                                   const BeamOptions& options, OnDone on_done,
                                                   OnAdmitted on_admitted = nullptr);

  // Of the first round: the request that computes the prompt.
  RequestId prompt_request() const { return prompt_request_; }

  // Ends it soon, with FinishReason::kCancelled. Any thread.
  void Cancel();

  // Held now: at most width + n. Between rounds, on the thread that runs them.
  std::size_t texts() const { return kept_.size() + ended_.size(); }

 private:
  class Sink;
  struct Candidate {
    std::size_t beam;
    TokenId token;
    double sum_logprobs;
    std::size_t order;  // by beam and rank: equal sums stay so
  };

  BeamSearch(Service& service, Post post, GenerationRequest request, const BeamOptions& options,
             OnDone on_done, OnAdmitted on_admitted);

  Result<std::vector<RequestId>> Submit();
  void OnBeamFinished(std::size_t beam, FinishReason reason, const Usage& usage,
                      std::string_view error);
  void EndRound();
  void Choose();
  void SetAside(Beam beam);
  bool IsEnd(TokenId token) const;
  double ScoreOf(const Beam& beam) const;
  void EndSearch(FinishReason reason, std::string error);

  Service& service_;
  const Post post_;
  const GenerationRequest request_;
  const BeamOptions options_;
  OnDone on_done_;
  const OnAdmitted on_admitted_;  // may be null
  RequestId prompt_request_;

  // Of the round: the engine's thread fills these, then EndRound has them to itself.
  std::vector<std::optional<TokenLogprobs>> found_;  // by kept beam
  std::vector<Beam> kept_;
  std::vector<Beam> ended_;  // the n best, the best first
  Usage usage_;
  std::uint64_t rounds_ = 0;
  std::size_t unfinished_ = 0;
  FinishReason failure_ = FinishReason::kLength;  // kCancelled, kError or kDeadline once one failed
  std::string error_;

  std::mutex mutex_;  // protects the two below
  std::vector<RequestId> submitted_;
  bool is_cancelled_ = false;
};

}  // namespace ashlar::engine
