// Chooses tokens from logits. A pure function of (logits, parameters, the sequence's tokens,
// position): nothing is drawn from a shared stream, so a sequence gets the same tokens in any
// batch.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "kernels/kernel_set.h"
#include "model/sampling_params.h"

namespace ashlar::model {

// What the penalties need to know of a sequence; kept up to date token by token.
class TokenHistory {
 public:
  explicit TokenHistory(std::span<const TokenId> prompt);
  void Add(TokenId generated);

  struct Counts {
    bool in_prompt = false;
    std::uint32_t generated = 0;
  };
  const std::unordered_map<TokenId, Counts>& counts() const { return counts_; }

 private:
  std::unordered_map<TokenId, Counts> counts_;
};

// Owns scratch for one vocabulary; not thread-safe. A choice takes time in proportion to the
// vocabulary, as a rule, whatever it cuts off: nothing is sorted as a whole.
class Sampler {
 public:
  Sampler(std::size_t vocab_size, const kernels::KernelSet& kernels);

  // The next token of a sequence, at `position` in it. `logits` [vocab] f32 is not changed. NaN
  // logits are never chosen; when no logit is above -infinity the answer is token 0. Precondition:
  // Validate(params, vocab) is ok.
  TokenId Sample(std::span<const float> logits, const SamplingParams& params,
                 const TokenHistory& history, std::uint64_t position);

 private:
  // A token that top_k, top_p and min_p may cut off.
  struct Candidate {
    float logit;
    TokenId token;
    float weight;  // probability, as a multiple of the likeliest token's
  };

  void AdjustLogits(std::span<const float> logits, const SamplingParams& params,
                    const TokenHistory& history);
  TokenId Draw(const SamplingParams& params, std::uint64_t position);
  double Cut(const SamplingParams& params, double sum);
  float LogitThatManyReach(std::size_t count);
  void KeepTopK(std::size_t count);
  void KeepTopP(double mass);
  void KeepDownTo(const Candidate& last);

  const kernels::KernelSet& kernels_;
  std::vector<float> adjusted_;
  std::vector<float> weights_;         // of all tokens
  std::vector<Candidate> candidates_;  // by id
  std::vector<Candidate> selection_;   // of them, in no order
  std::vector<float> stretch_max_;     // the largest logit of each stretch of tokens
};

// Largest logit, lowest id among equals; NaN never. 0 when nothing is above -infinity.
TokenId ArgMax(const kernels::KernelSet& kernels, std::span<const float> logits);

// log(sum(exp(logits))) within 1e-6, NaN logits left out; the largest logit where that is not
// finite.
double LogSumExp(const kernels::KernelSet& kernels, std::span<const float> logits);

// The `count` largest logits as (token, logit - log_sum), most likely first, ties by lower id.
// log_sum: LogSumExp(logits).
std::vector<std::pair<TokenId, float>> TopLogprobs(std::span<const float> logits, std::size_t count,
                                                   double log_sum);

}  // namespace ashlar::model
