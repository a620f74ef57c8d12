#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/forward.h"

namespace ashlar::model {

void ForwardPass::RunFeedForward(std::size_t layer) {
  const LayerWeights& w = model_.weights().layers()[layer];
  if (config_.LayerAt(layer).has_experts) {
    RunExperts(w.experts);
  } else {
    RunDense(w.feed_forward, projected_.data());
  }
}

void ForwardPass::RunDense(const FeedForwardWeights& weights, float* out) {
  const std::size_t wide = weights.up.w.n;
  if (config_.is_gated) {
    Multiply(std::array{Whole(weights.gate, normed_.data(), gate_.data()),
                        Whole(weights.up, normed_.data(), up_.data())});
  } else {
    Multiply(std::array{Whole(weights.up, normed_.data(), up_.data())});
  }
  ForEachRow(rows_, [&](std::size_t row) {
    float* const up = up_.data() + row * wide;
    if (config_.is_gated) {
      Activate(gate_.data() + row * wide, up, wide, up);
    } else {
      Activate(up, nullptr, wide, up);
    }
  });
  Multiply(std::array{Whole(weights.down, up_.data(), out)});
}

// out = activation(gate) * up, or without `up` activation(gate).
void ForwardPass::Activate(const float* gate, const float* up, std::size_t n, float* out) const {
  switch (config_.activation) {
    case Activation::kSilu:
      return kernels_.silu_mul(gate, up, n, out);
    case Activation::kGeluTanh:
      return kernels_.gelu_tanh(gate, up, n, out);
    case Activation::kGeluErf:
      return kernels_.gelu_erf(gate, up, n, out);
    case Activation::kSiluClamped:
      return kernels_.silu_clamped(gate, up, n, out);
  }
  ASHLAR_CHECK(false, "unknown Activation {}", static_cast<int>(config_.activation));
}

// A token's result is the sum over the experts it uses, in the order of their weights: the same
// chain whatever else is in the step.
void ForwardPass::RunExperts(const ExpertsWeights& weights) {
  Multiply(std::array{Whole(weights.router, normed_.data(), router_.data())});
  ChooseAndGather(weights);
  MultiplyExperts(weights);
  const std::size_t hidden = config_.hidden;
  const std::size_t used = config_.experts->used;
  ForEachRow(rows_, [&](std::size_t row) {
    float* const out = projected_.data() + row * hidden;
    for (std::size_t i = row * used; i < (row + 1) * used; ++i) {
      float* const part = expert_out_.data() + expert_rows_[i] * hidden;
      if (i == row * used) {
        kernels_.scale(part, choices_[i].weight, hidden, out);
      } else {
        kernels_.scale(part, choices_[i].weight, hidden, part);
        kernels_.add(out, part, hidden);
      }
    }
  });
  if (config_.experts->shared > 0) AddSharedExpert(weights);
}

// Chooses each row's experts, and lays the rows out expert by expert.
void ForwardPass::ChooseAndGather(const ExpertsWeights& weights) {
  const ExpertsConfig& experts = *config_.experts;
  const std::size_t used = experts.used;
  ForEachRow(rows_, [&](std::size_t row) {
    ChooseExperts(experts, {router_.data() + row * experts.count, experts.count},
                  weights.selection_bias, std::span(choices_).subspan(row * used, used));
  });
  std::fill(expert_begins_.begin(), expert_begins_.end(), 0);
  const std::span<const ExpertChoice> choices(choices_.data(), rows_ * used);
  for (const ExpertChoice& choice : choices) ++expert_begins_[choice.expert + 1];
  for (std::size_t e = 0; e < experts.count; ++e) expert_begins_[e + 1] += expert_begins_[e];
  // Hands out places from each expert's first one on, then moves the marks back.
  for (std::size_t i = 0; i < choices.size(); ++i) {
    expert_rows_[i] = expert_begins_[choices[i].expert]++;
  }
  std::move_backward(expert_begins_.begin(), expert_begins_.end() - 1, expert_begins_.end());
  expert_begins_[0] = 0;
  ForEachRow(rows_, [&](std::size_t row) {
    for (std::size_t i = row * used; i < (row + 1) * used; ++i) {
      std::copy_n(normed_.data() + row * config_.hidden, config_.hidden,
                  expert_in_.data() + expert_rows_[i] * config_.hidden);
    }
  });
}

// expert_in_ to expert_out_, all experts side by side.
void ForwardPass::MultiplyExperts(const ExpertsWeights& weights) {
  const std::size_t wide = config_.experts->feed_forward;
  const auto add = [this](const Linear& linear, const float* x, float* y, std::size_t expert) {
    const std::size_t begin = expert_begins_[expert];
    const std::size_t rows = expert_begins_[expert + 1] - begin;
    if (rows == 0) return;
    products_.push_back(
        {&linear, x + begin * linear.w.k, linear.w.k, y + begin * linear.w.n, linear.w.n, rows});
  };
  products_.clear();
  for (std::size_t e = 0; e < weights.experts.size(); ++e) {
    add(weights.experts[e].gate, expert_in_.data(), expert_gate_.data(), e);
    add(weights.experts[e].up, expert_in_.data(), expert_up_.data(), e);
  }
  Multiply(products_);
  ForEachRow(rows_ * config_.experts->used, [&](std::size_t row) {
    float* const up = expert_up_.data() + row * wide;
    Activate(expert_gate_.data() + row * wide, up, wide, up);
  });
  products_.clear();
  for (std::size_t e = 0; e < weights.experts.size(); ++e) {
    add(weights.experts[e].down, expert_up_.data(), expert_out_.data(), e);
  }
  Multiply(products_);
}

void ForwardPass::AddSharedExpert(const ExpertsWeights& weights) {
  const std::size_t hidden = config_.hidden;
  RunDense(weights.shared, shared_out_.data());
  const bool is_gated = config_.experts->has_shared_gate;
  if (is_gated) Multiply(std::array{Whole(weights.shared_gate, normed_.data(), router_.data())});
  ForEachRow(rows_, [&](std::size_t row) {
    float* const part = shared_out_.data() + row * hidden;
    if (is_gated) {
      kernels_.scale(part, 1.0f / (1.0f + kernels::Exp(-router_[row])), hidden, part);
    }
    kernels_.add(projected_.data() + row * hidden, part, hidden);
  });
}

}  // namespace ashlar::model
