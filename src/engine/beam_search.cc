#include "engine/beam_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace ashlar::engine {

class BeamSearch::Sink final : public EventSink {
 public:
  Sink(std::shared_ptr<BeamSearch> search, std::size_t beam)
      : search_(std::move(search)), beam_(beam) {}

  void OnAdmitted(const AdmissionRecord& admission) override {
    if (search_->rounds_ == 0 && search_->on_admitted_) search_->on_admitted_(admission);
  }
  void OnToken(TokenId, const TokenLogprobs* logprobs) override {
    search_->found_[beam_] = *logprobs;
  }
  void OnFinish(FinishReason reason, const Usage& usage, std::string_view error) override {
    search_->OnBeamFinished(beam_, reason, usage, error);
  }

 private:
  const std::shared_ptr<BeamSearch> search_;
  const std::size_t beam_;
};

Result<std::shared_ptr<BeamSearch>> BeamSearch::Start(Service& service, Post post,
                                                      GenerationRequest request,
                                                      const BeamOptions& options, OnDone on_done,
                                                      OnAdmitted on_admitted) {
  if (options.width < 1 || options.width > kMaxBeamWidth || options.n < 1 ||
      options.n > options.width) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "a beam of {} of which {} are returned; it may have 1 to {}, and return as many",
        options.width, options.n, kMaxBeamWidth);
  }
  if (request.max_tokens == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "max_tokens is 0; beam search needs at least one token to choose");
  }
  std::shared_ptr<BeamSearch> search(new BeamSearch(service, std::move(post), std::move(request),
                                                    options, std::move(on_done),
                                                    std::move(on_admitted)));
  search->kept_.resize(1);
  ASHLAR_ASSIGN(const std::vector<RequestId> ids, search->Submit());
  search->prompt_request_ = ids[0];
  return search;
}

BeamSearch::BeamSearch(Service& service, Post post, GenerationRequest request,
                       const BeamOptions& options, OnDone on_done, OnAdmitted on_admitted)
    : service_(service),
      post_(std::move(post)),
      request_(std::move(request)),
      options_(options),
      on_done_(std::move(on_done)),
      on_admitted_(std::move(on_admitted)) {}

// One request for each kept beam.
Result<std::vector<RequestId>> BeamSearch::Submit() {
  std::vector<Submission> submissions;
  submissions.reserve(kept_.size());
  found_.assign(kept_.size(), std::nullopt);
  unfinished_ = kept_.size();
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    GenerationRequest request = request_;
    request.prompt.insert(request.prompt.end(), kept_[i].tokens.begin(), kept_[i].tokens.end());
    request.sampling = {.temperature = 0.0};
    request.max_tokens = 1;
    request.min_tokens = 0;
    request.stop_tokens.clear();
    request.top_logprobs = 2 * options_.width;
    request.prompt_logprobs = false;
    submissions.push_back(
        {.request = std::move(request), .sink = std::make_shared<Sink>(shared_from_this(), i)});
  }
  ASHLAR_ASSIGN(std::vector<RequestId> ids, service_.SubmitAll(std::move(submissions)));
  bool is_cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    submitted_ = ids;
    is_cancelled = is_cancelled_;
  }
  if (is_cancelled) {
    for (const RequestId id : ids) service_.Cancel(id);
  }
  return ids;
}

void BeamSearch::Cancel() {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    ids = submitted_;
  }
  for (const RequestId id : ids) service_.Cancel(id);
}

// On the engine's thread.
void BeamSearch::OnBeamFinished(std::size_t beam, FinishReason reason, const Usage& usage,
                                std::string_view error) {
  if (reason != FinishReason::kLength) {
    failure_ = reason;
    error_ = error;
  }
  if (rounds_ == 0 && beam == 0) usage_ = usage;
  usage_.preemptions += rounds_ == 0 ? 0 : usage.preemptions;
  usage_.decode_ns += rounds_ == 0 ? 0 : usage.queue_ns + usage.prefill_ns + usage.decode_ns;
  if (--unfinished_ > 0) return;
  post_([self = shared_from_this()] { self->EndRound(); });
}

void BeamSearch::EndRound() {
  ++rounds_;
  bool is_cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    is_cancelled = is_cancelled_;
  }
  if (failure_ != FinishReason::kLength) return EndSearch(failure_, std::move(error_));
  if (is_cancelled) return EndSearch(FinishReason::kCancelled, "");
  Choose();
  if (kept_.empty() || rounds_ == request_.max_tokens) {
    return EndSearch(ended_.empty() ? FinishReason::kLength : FinishReason::kStop, "");
  }
  if (const auto submitted = Submit(); !submitted.ok()) {
    // A queue that is full, a service that sleeps or ends: nothing is wrong with the request.
    const ErrorCode code = submitted.error().code;
    const bool is_passing =
        code == ErrorCode::kResourceExhausted || code == ErrorCode::kUnavailable;
    EndSearch(is_passing ? FinishReason::kCancelled : FinishReason::kError,
              submitted.error().message);
  }
}

void BeamSearch::Choose() {
  std::vector<Candidate> candidates;
  candidates.reserve(kept_.size() * 2 * options_.width);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    for (const auto& [token, logprob] : found_[i]->top) {
      candidates.push_back(
          {i, token, kept_[i].sum_logprobs + static_cast<double>(logprob), candidates.size()});
    }
  }
  // All of one round have the same length: the order of sums is that of scores. Equal ones stay in
  // order of beam and rank.
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.sum_logprobs != b.sum_logprobs ? a.sum_logprobs > b.sum_logprobs : a.order < b.order;
  });
  std::vector<Beam> next;
  next.reserve(options_.width);
  const bool may_end = rounds_ > request_.min_tokens;
  std::size_t seen = 0;
  for (const Candidate& candidate : candidates) {
    if (next.size() == options_.width || seen == std::size_t{2} * options_.width) break;
    const bool is_end = IsEnd(candidate.token);
    if (is_end && !may_end) continue;
    ++seen;
    Beam beam = kept_[candidate.beam];
    beam.tokens.push_back(candidate.token);
    TokenLogprobs logprobs = *found_[candidate.beam];
    logprobs.token = candidate.token;
    logprobs.logprob = static_cast<float>(candidate.sum_logprobs - beam.sum_logprobs);
    const std::size_t shown =
        std::min<std::size_t>(request_.top_logprobs.value_or(0), logprobs.top.size());
    logprobs.top.resize(shown);
    beam.logprobs.push_back(std::move(logprobs));
    beam.sum_logprobs = candidate.sum_logprobs;
    if (is_end) {
      beam.reason = FinishReason::kStop;
      SetAside(std::move(beam));
    } else {
      next.push_back(std::move(beam));
    }
  }
  kept_ = std::move(next);
}

// Equal ones stay as they came. What comes after the n best is never returned.
void BeamSearch::SetAside(Beam beam) {
  const double score = ScoreOf(beam);
  auto place = ended_.end();
  while (place != ended_.begin() && score > ScoreOf(*std::prev(place))) --place;
  ended_.insert(place, std::move(beam));
  if (ended_.size() > options_.n) ended_.pop_back();
}

bool BeamSearch::IsEnd(TokenId token) const {
  return std::ranges::find(request_.stop_tokens, token) != request_.stop_tokens.end();
}

double BeamSearch::ScoreOf(const Beam& beam) const {
  const std::size_t end = beam.reason == FinishReason::kStop ? 1 : 0;
  const double length = static_cast<double>(std::max<std::size_t>(1, beam.tokens.size() - end));
  return beam.sum_logprobs / std::pow(length, options_.length_penalty);
}

void BeamSearch::EndSearch(FinishReason reason, std::string error) {
  BeamResult result{.reason = reason, .error = std::move(error), .beams = {}, .usage = usage_};
  if (reason == FinishReason::kStop || reason == FinishReason::kLength) {
    for (Beam& beam : kept_) SetAside(std::move(beam));
    result.beams = std::move(ended_);
  }
  result.usage.completion_tokens = 0;
  for (const Beam& beam : result.beams) result.usage.completion_tokens += beam.tokens.size();
  on_done_(std::move(result));
  on_done_ = nullptr;
}

}  // namespace ashlar::engine
