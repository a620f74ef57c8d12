// A model file opened and read: file, tokenizer, weights, and the threads to run it on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/model_file.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ashlar::apps {

class LoadedModel {
 public:
  // Shows progress on stderr while loading when that is a terminal. Errors: those of the file, the
  // tokenizer and the model; kCorrupt when the two disagree on the vocabulary.
  // `access`, `context`: as Model::Load has them.
  static Result<LoadedModel> Open(const std::string& path, std::size_t threads,
                                  model::WeightAccess access, std::uint64_t context = 0);

  const gguf::ModelFile& file() const { return *file_; }
  const model::Model& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  ThreadPool& pool() const { return *pool_; }

 private:
  LoadedModel() = default;

  std::unique_ptr<const gguf::ModelFile> file_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<const model::Model> model_;
};

}  // namespace ashlar::apps
