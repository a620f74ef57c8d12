// How the next token is chosen from the logits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace ashlar::model {

// Applied in this order: logit bias; repetition, presence and frequency penalties; temperature;
// top-k; top-p; min-p; a draw. Temperature 0 is greedy: the largest logit after bias and penalties,
// the lowest id among equals.
struct SamplingParams {
  double temperature = 1.0;  // 0 to 100; above 0 and below 1e-30 it is 1e-30
  std::uint32_t top_k = 0;   // keep the k most likely; 0 keeps all
  double top_p = 1.0;        // keep the smallest set whose probabilities reach p; (0, 1]
  double min_p = 0.0;        // drop what is less likely than min_p times the likeliest; [0, 1]
  double repetition_penalty = 1.0;  // divides positive / multiplies negative logits of tokens seen
                                    // in prompt or completion (CTRL, Keskar et al. 2019); [0.01,
                                    // 100]
  double presence_penalty = 0.0;    // subtracted once from tokens generated before; [-2, 2]
  double frequency_penalty = 0.0;   // subtracted per earlier occurrence in the completion; [-2, 2]
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // added; [-100, 100] each
  std::uint64_t seed = 0;  // the draw is a function of (seed, position): reproducible anywhere
};

// Errors: kInvalidArgument naming the field, its value and its range.
Status Validate(const SamplingParams& params, std::size_t vocab_size);

}  // namespace ashlar::model
