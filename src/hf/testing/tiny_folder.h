// The tiny models as folders of safetensors: the same numbers as their GGUF files, in the layout
// that transformers writes.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "model/testing/tiny_model.h"

namespace ashlar::hf {

struct TinyFolder {
  nlohmann::ordered_json config;
  nlohmann::ordered_json tokenizer;
  nlohmann::ordered_json tokenizer_config;
  std::size_t shards = 1;  // more than 1: with an index
};

// The files of a model beside its weights, to be changed. Precondition: the options are those of a
// model that folders can have (CanBeFolder).
TinyFolder TinyFolderOf(const model::TinyModelOptions& options);

// Whether families of folders, and what config.json can say, cover the model.
bool CanBeFolder(const model::TinyModelOptions& options);

// Writes it to `path`, an existing folder. Errors: kIo.
Status WriteTinyFolder(const TinyFolder& folder, const model::TinyModelOptions& options,
                       const std::string& path);

}  // namespace ashlar::hf
