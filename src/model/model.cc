#include "model/model.h"

#include <cmath>
#include <utility>

namespace ashlar::model {

Result<std::unique_ptr<const Model>> Model::Load(const gguf::ModelFile& file, ThreadPool& pool,
                                                 const LoadProgress& progress) {
  ASHLAR_ASSIGN(ModelConfig config, ModelConfig::Read(file));
  ASHLAR_ASSIGN(Weights weights, Weights::Load(file, config, pool, progress));
  for (const float divisor : weights.rope_divisors()) {
    if (!std::isfinite(divisor) || divisor <= 0) {
      return MakeError(ErrorCode::kCorrupt, "rope_freqs.weight holds {}; expected positive numbers",
                       divisor);
    }
  }
  Rope rope(config, weights.rope_divisors());
  return std::unique_ptr<const Model>(
      new Model(std::move(config), std::move(weights), std::move(rope)));
}

}  // namespace ashlar::model
