#include "engine/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

// An engine as a service on one thread: what is posted runs between steps.
class OneThread final : public Service {
 public:
  explicit OneThread(const EngineOptions& options = TinyEngine::DefaultOptions())
      : engine_(options) {}

  const ServiceInfo& info() const override { return engine_.operator*().info(); }
  ServiceStats stats() const override { return engine_.operator*().stats(); }
  Result<std::vector<RequestId>> SubmitAll(std::vector<Submission> submissions) override {
    for (const Submission& one : submissions) ASHLAR_TRY((*engine_).Check(one.request));
    if (refusal_) return *refusal_;
    std::vector<RequestId> ids;
    for (Submission& one : submissions) {
      ids.emplace_back(next_++);
      (*engine_).Submit(ids.back(), std::move(one.request), std::move(one.sink), 0);
    }
    return ids;
  }
  void Cancel(RequestId id) override { (*engine_).Cancel(id); }

  BeamSearch::Post post() {
    return [this](std::function<void()> work) { work_.push_back(std::move(work)); };
  }
  void RunAll() {
    for (;;) {
      if (!work_.empty()) {
        const auto work = std::move(work_.front());
        work_.pop_front();
        work();
      } else if (!(*engine_).Step()) {
        return;
      }
    }
  }
  Engine& engine() { return *engine_; }
  void RefuseWith(ErrorCode code) { refusal_ = Error{code, "not now"}; }

 private:
  mutable TinyEngine engine_;
  std::deque<std::function<void()>> work_;
  std::uint64_t next_ = 1;
  std::optional<Error> refusal_;
};

BeamResult Search(OneThread& service, const GenerationRequest& request,
                  const BeamOptions& options) {
  std::optional<BeamResult> result;
  const auto search = BeamSearch::Start(service, service.post(), request, options,
                                        [&](BeamResult done) { result = std::move(done); });
  EXPECT_TRUE(search.ok()) << search.error().message;
  service.RunAll();
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(service.engine().cache().live_bytes(), 0u);
  return result.value_or(BeamResult{});
}

// Every text of so many tokens, by its sum of log probabilities: what a beam wide enough finds.
struct Text {
  std::vector<TokenId> tokens;
  double sum = 0;
};
std::vector<Text> Naive(const std::vector<TokenId>& prompt, std::size_t tokens, std::uint32_t width,
                        TokenId end, std::vector<Text>& ended) {
  OneThread service;
  std::vector<Text> kept(1);
  for (std::size_t round = 0; round < tokens; ++round) {
    std::vector<Text> all;
    for (const Text& text : kept) {
      GenerationRequest request = {.prompt = prompt, .max_tokens = 1, .top_logprobs = 2 * width};
      request.prompt.insert(request.prompt.end(), text.tokens.begin(), text.tokens.end());
      const auto sink = std::make_shared<RecordingSink>();
      service.engine().Submit(RequestId(1), request, sink, 0);
      service.RunAll();
      for (const auto& [token, logprob] : sink->logprobs[0].top) {
        Text longer = text;
        longer.tokens.push_back(token);
        longer.sum += static_cast<double>(logprob);
        all.push_back(std::move(longer));
      }
    }
    std::ranges::stable_sort(all, std::greater<>(), &Text::sum);
    kept.clear();
    for (std::size_t i = 0; i < all.size() && i < 2 * width && kept.size() < width; ++i) {
      (all[i].tokens.back() == end ? ended : kept).push_back(all[i]);
    }
  }
  return kept;
}

TEST(BeamSearch, KeepsTheLikeliestTextsOfEveryLength) {
  const std::vector<TokenId> prompt = {5, 9, 33, 120, 7, 7, 2};
  for (const std::uint32_t width : {1u, 3u, 6u}) {
    std::vector<Text> ended;
    std::vector<Text> want = Naive(prompt, 12, width, -1, ended);
    OneThread service;
    const BeamResult got =
        Search(service, {.prompt = prompt, .max_tokens = 12}, {.width = width, .n = width});
    ASSERT_EQ(got.beams.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got.beams[i].tokens, want[i].tokens);
      EXPECT_EQ(got.beams[i].sum_logprobs, want[i].sum);
      EXPECT_EQ(got.beams[i].reason, FinishReason::kLength);
    }
    EXPECT_EQ(got.usage.prompt_tokens, prompt.size());
  }
}

TEST(BeamSearch, OfWidthOneIsGreedy) {
  const std::vector<TokenId> prompt = {1, 2, 3};
  OneThread service;
  const auto sink = std::make_shared<RecordingSink>();
  service.engine().Submit(RequestId(1000),
                          {.prompt = prompt, .sampling = {.temperature = 0.0}, .max_tokens = 20},
                          sink, 0);
  service.RunAll();
  EXPECT_EQ(Search(service, {.prompt = prompt, .max_tokens = 20}, {.width = 1}).beams[0].tokens,
            sink->tokens);
}

TEST(BeamSearch, EndsOfTextAreSetAsideAndScoredByLength) {
  const std::vector<TokenId> prompt = {5, 9, 33, 120, 7, 7, 2};
  OneThread service;
  const GenerationRequest plain = {.prompt = prompt, .max_tokens = 10};
  const TokenId end = Search(service, plain, {.width = 4, .n = 4}).beams[1].tokens[4];
  GenerationRequest request = plain;
  request.stop_tokens = {end};
  std::vector<Text> ended;
  std::vector<Text> all = Naive(prompt, 10, 4, end, ended);
  ASSERT_FALSE(ended.empty());
  all.insert(all.begin(), ended.begin(), ended.end());
  const auto score = [&](const Text& text) {
    const double length =
        static_cast<double>(text.tokens.size()) - (text.tokens.back() == end ? 1.0 : 0.0);
    return text.sum / std::pow(std::max(1.0, length), 0.6);
  };
  std::ranges::stable_sort(all, std::greater<>(), score);
  const BeamResult got = Search(service, request, {.width = 4, .n = 4, .length_penalty = 0.6});
  ASSERT_EQ(got.beams.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got.beams[i].tokens, all[i].tokens) << i;
    EXPECT_EQ(got.beams[i].reason == FinishReason::kStop, got.beams[i].tokens.back() == end);
  }
}

// Each round computes one token a beam: the rest is in the cache.
TEST(BeamSearch, ComputesEveryTokenOnce) {
  std::vector<TokenId> prompt(100);
  std::mt19937 random(3);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % 250);
  OneThread service;
  (void)Search(service, {.prompt = prompt, .max_tokens = 30}, {.width = 4, .n = 1});
  const ServiceStats stats = service.stats();
  EXPECT_LE(stats.prompt_tokens - stats.cached_tokens, 100u + 29u * 4u);
}

TEST(BeamSearch, ACancelledOneSaysSoAndLeavesNothing) {
  OneThread service;
  std::optional<BeamResult> result;
  const auto search =
      BeamSearch::Start(service, service.post(), {.prompt = {1, 2, 3}, .max_tokens = 200},
                        {.width = 4}, [&](BeamResult done) { result = std::move(done); });
  ASSERT_TRUE(search.ok());
  (void)service.engine().Step();
  (*search)->Cancel();
  service.RunAll();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->reason, FinishReason::kCancelled);
  EXPECT_TRUE(result->beams.empty());
  EXPECT_EQ(service.engine().cache().live_bytes(), 0u);
}

// Between rounds the queue may have filled, the service fallen asleep.
TEST(BeamSearch, ARoundThatIsRefusedForNowCancels) {
  for (const auto& [code, reason] :
       {std::pair{ErrorCode::kResourceExhausted, FinishReason::kCancelled},
        std::pair{ErrorCode::kUnavailable, FinishReason::kCancelled},
        std::pair{ErrorCode::kInvalidArgument, FinishReason::kError}}) {
    OneThread service;
    std::optional<BeamResult> result;
    const auto search =
        BeamSearch::Start(service, service.post(), {.prompt = {1, 2, 3}, .max_tokens = 9},
                          {.width = 4}, [&](BeamResult done) { result = std::move(done); });
    ASSERT_TRUE(search.ok());
    service.RefuseWith(code);
    service.RunAll();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->reason, reason);
    EXPECT_EQ(result->error, "not now");
  }
}

// However many end, only the n best can be in the result.
TEST(BeamSearch, HoldsNoMoreThanItMayReturn) {
  OneThread service;
  GenerationRequest request = {.prompt = {5, 9, 33, 120, 7, 7, 2}, .max_tokens = 40};
  for (TokenId token = 0; token < 128; ++token) request.stop_tokens.push_back(token);
  bool is_done = false;
  std::size_t most = 0;
  std::shared_ptr<BeamSearch> held;
  const BeamSearch::Post post = [&](std::function<void()> work) {
    service.post()([&, work = std::move(work)] {
      work();
      if (!is_done) most = std::max(most, held->texts());
    });
  };
  auto search = BeamSearch::Start(service, post, request, {.width = 4, .n = 2},
                                  [&](BeamResult) { is_done = true; });
  ASSERT_TRUE(search.ok());
  held = *std::move(search);
  service.RunAll();
  EXPECT_TRUE(is_done);
  EXPECT_EQ(most, 6u);
}

TEST(BeamSearch, WidthsOutOfRangeAreRefused) {
  OneThread service;
  for (const BeamOptions& options :
       {BeamOptions{.width = 0}, BeamOptions{.width = 65}, BeamOptions{.width = 2, .n = 3}}) {
    EXPECT_FALSE(BeamSearch::Start(service, service.post(), {.prompt = {1}, .max_tokens = 4},
                                   options, nullptr)
                     .ok());
  }
}

}  // namespace
}  // namespace ashlar::engine
