// A loaded model: its description, weights and rotary tables. Immutable and shareable.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/model_file.h"
#include "model/config.h"
#include "model/rope.h"
#include "model/weights.h"

namespace ashlar::model {

class Model {
 public:
  // `file` must outlive the model. `context`: tokens a sequence will have at the most; 0: as many
  // as the model was trained for. (A model with two sets of rotary divisors has one for contexts
  // beyond its original one; a sequence never changes from one to the other.) Errors: those of
  // ModelConfig::Read and Weights::Load.
  static Result<std::unique_ptr<const Model>> Load(const gguf::ModelFile& file, ThreadPool& pool,
                                                   const LoadProgress& progress,
                                                   std::uint64_t context = 0,
                                                   WeightAccess access = WeightAccess::kCopy);

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  // As LayerConfig::rope numbers them.
  std::span<const Rope> ropes() const { return ropes_; }

 private:
  Model(ModelConfig config, Weights weights, std::vector<Rope> ropes)
      : config_(std::move(config)), weights_(std::move(weights)), ropes_(std::move(ropes)) {}

  ModelConfig config_;
  Weights weights_;
  std::vector<Rope> ropes_;
};

}  // namespace ashlar::model
