#include "model/model.h"

#include <cmath>

namespace ashlar::model {
namespace {

Status CheckDivisors(std::span<const float> divisors) {
  for (const float divisor : divisors) {
    if (!std::isfinite(divisor) || divisor <= 0) {
      return MakeError(ErrorCode::kCorrupt, "rotary divisors hold {}; expected positive numbers",
                       divisor);
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<const Model>> Model::Load(const gguf::ModelFile& file, ThreadPool& pool,
                                                 const LoadProgress& progress,
                                                 std::uint64_t context, WeightAccess access) {
  ASHLAR_ASSIGN(ModelConfig config, ModelConfig::Read(file));
  ASHLAR_ASSIGN(Weights weights, Weights::Load(file, config, pool, progress, access));
  ASHLAR_TRY(CheckDivisors(weights.rope_divisors()));
  ASHLAR_TRY(CheckDivisors(weights.long_rope_divisors()));
  const double tokens = static_cast<double>(context > 0 ? context : config.context);
  const bool is_long =
      !weights.long_rope_divisors().empty() && tokens > config.ropes[0].scaling.original_context;
  std::vector<Rope> ropes;
  ropes.reserve(config.ropes.size());
  for (const RopeSpec& spec : config.ropes) {
    ropes.emplace_back(spec, config.rope_dims,
                       is_long ? weights.long_rope_divisors() : weights.rope_divisors());
  }
  return std::unique_ptr<const Model>(
      new Model(std::move(config), std::move(weights), std::move(ropes)));
}

}  // namespace ashlar::model
