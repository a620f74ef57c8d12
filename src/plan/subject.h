// What a plan is about: a model's geometry, and its weights as far as a file shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "gguf/model_file.h"
#include "model/config.h"
#include "plan/geometry.h"
#include "plan/registry.h"

namespace ashlar::plan {

// Of a GGUF file or of safetensors: exact.
struct FileWeights {
  std::uint64_t stored_bytes = 0;  // of all tensors in the file
  // As the engine holds them in memory: packed, without the embedding table, which stays in the
  // file. Of a model that this build does not run, as in the file.
  std::uint64_t loaded_bytes = 0;
  std::uint64_t parameters = 0;
  std::string format;  // the dtype of most bytes
};

struct Subject {
  Geometry geometry;
  std::string source;  // "registry", "config", "gguf", "safetensors"
  std::optional<FileWeights> file_weights = {};
  std::optional<model::ModelConfig> config = {};  // of a file that this build runs
};

// `model` is a GGUF file, a config.json, a folder with one and perhaps with safetensors, or a name
// of the registry. Errors:
// kNotFound (with the registry's nearest names), kIo, kCorrupt and kUnsupported naming the file and
// the field.
Result<Subject> FindSubject(const std::string& model, const Registry& registry);

// From a file's metadata, read as a config.json is. Errors: kCorrupt and kUnsupported naming the
// file and the key.
Result<Geometry> GeometryOf(const gguf::ModelFile& file, const std::string& path);

// The lane groups are the engine's own where this build runs the model, and otherwise those its
// metadata describe.
Result<Subject> SubjectOf(const gguf::ModelFile& file, const std::string& path);

}  // namespace ashlar::plan
