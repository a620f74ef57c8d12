#include "simulate/cost_fit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ashlar::simulate {
namespace {

constexpr int kSweeps = 20'000;
constexpr double kEnough = 1e-10;  // the largest change of a sweep, of the largest coefficient

// Of `tokens` in the row of each knot: how RowsNs interpolates.
void AddKnots(std::span<const double> knots, double tokens, std::vector<double>& terms) {
  const std::size_t begin = terms.size();
  terms.resize(begin + knots.size());
  if (knots.size() == 1 || tokens <= knots[0]) {
    terms[begin] = 1;
    return;
  }
  const auto above = std::ranges::upper_bound(knots, tokens);
  const auto upper =
      std::min<std::size_t>(static_cast<std::size_t>(above - knots.begin()), knots.size() - 1);
  const double share = (tokens - knots[upper - 1]) / (knots[upper] - knots[upper - 1]);
  terms[begin + upper - 1] = 1 - share;
  terms[begin + upper] = share;
}

// x >= 0 that minimises |terms x - 1|^2; each row was divided by its time.
class NonNegative {
 public:
  explicit NonNegative(std::size_t terms)
      : squares_(terms, std::vector<double>(terms)), products_(terms), solution_(terms) {}

  void Add(std::span<const double> row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t j = 0; j < row.size(); ++j) squares_[i][j] += row[i] * row[j];
      products_[i] += row[i];
    }
  }

  const std::vector<double>& Solve() {
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      double change = 0;
      double largest = 0;
      for (std::size_t i = 0; i < solution_.size(); ++i) {
        if (squares_[i][i] <= 0) continue;
        double rest = products_[i];
        for (std::size_t j = 0; j < solution_.size(); ++j) {
          if (j != i) rest -= squares_[i][j] * solution_[j];
        }
        const double next = std::max(0.0, rest / squares_[i][i]);
        // In units of what it explains.
        const double unit = std::sqrt(squares_[i][i]);
        change = std::max(change, std::abs(next - solution_[i]) * unit);
        largest = std::max(largest, next * unit);
        solution_[i] = next;
      }
      if (change <= kEnough * largest) break;
    }
    return solution_;
  }

 private:
  std::vector<std::vector<double>> squares_;
  std::vector<double> products_;
  std::vector<double> solution_;
};

}  // namespace

CostFit FitCost(std::span<const CostSample> samples, std::span<const double> knots) {
  ASHLAR_CHECK(!samples.empty() && !knots.empty() && std::ranges::is_sorted(knots),
               "{} samples, {} knots", samples.size(), knots.size());
  NonNegative problem(knots.size() + 3);
  std::vector<double> terms;
  for (const CostSample& sample : samples) {
    ASHLAR_CHECK(sample.ns > 0, "a step of {} ns", sample.ns);
    terms.clear();
    AddKnots(knots, static_cast<double>(sample.work.tokens), terms);
    terms.push_back(sample.work.prefill_pairs);
    terms.push_back(sample.work.decode_pairs);
    terms.push_back(static_cast<double>(sample.work.sequences));
    for (double& term : terms) term /= sample.ns;
    problem.Add(terms);
  }
  const std::vector<double>& found = problem.Solve();
  CostFit fit = {.samples = samples.size()};
  for (std::size_t i = 0; i < knots.size(); ++i) {
    fit.cost.rows_ns.push_back({.tokens = knots[i], .ns = found[i]});
  }
  fit.cost.prefill_pair_ns = found[knots.size()];
  fit.cost.decode_pair_ns = found[knots.size() + 1];
  fit.cost.sequence_ns = found[knots.size() + 2];
  const CostModel model = CostModel::Of(fit.cost);
  std::vector<double> errors;
  errors.reserve(samples.size());
  for (const CostSample& sample : samples) {
    errors.push_back(std::abs(static_cast<double>(model.StepNs(sample.work)) / sample.ns - 1));
    fit.mean_error += errors.back() / static_cast<double>(samples.size());
  }
  std::ranges::sort(errors);
  fit.p90_error = errors[errors.size() * 9 / 10];
  fit.worst_error = errors.back();
  return fit;
}

}  // namespace ashlar::simulate
