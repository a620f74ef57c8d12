// How far one prediction of the next token lies from another: pure functions of two rows of logits.
#pragma once

#include <span>

#include "base/ids.h"

namespace ashlar::eval {

// At one position: the model on exact keys and values (reference), and on encoded ones.
struct TokenScore {
  // KL(reference || other) over the whole vocabulary, nats, at least 0.
  double kl_nats = 0;
  // -log p(next token), nats.
  double reference_nll_nats = 0;
  double nll_nats = 0;
  // Both find the same token the likeliest (the lowest id among equals).
  bool has_same_top = false;

  // False when a logit was NaN or infinite; the numbers mean nothing then.
  bool IsFinite() const;
};

// With r and o the logits, R = sum exp r and O = sum exp o:
//   KL = (1 / R) sum exp(r_i) (r_i - o_i) - (log R - log O)
// in f64, logits taken relative to their largest. Exactly 0 for equal rows; otherwise the rounding
// of the sums stays below 1e-11 for 50,000 logits. O(vocab).
// Preconditions: rows of one size, at least 1; 0 <= next < size.
TokenScore Compare(std::span<const float> reference, std::span<const float> other, TokenId next);

}  // namespace ashlar::eval
