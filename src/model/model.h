// A loaded model: its description, weights and rotary tables. Immutable and shareable.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/model_file.h"
#include "model/config.h"
#include "model/rope.h"
#include "model/weights.h"

namespace ashlar::model {

class Model {
 public:
  // `file` must outlive the model. Errors: those of ModelConfig::Read and Weights::Load.
  static Result<std::unique_ptr<const Model>> Load(const gguf::ModelFile& file, ThreadPool& pool,
                                                   const LoadProgress& progress);

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  const Rope& rope() const { return rope_; }

 private:
  Model(ModelConfig config, Weights weights, Rope rope)
      : config_(std::move(config)), weights_(std::move(weights)), rope_(std::move(rope)) {}

  ModelConfig config_;
  Weights weights_;
  Rope rope_;
};

}  // namespace ashlar::model
