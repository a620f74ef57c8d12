// The safetensors files of a folder, opened and checked together.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "hf/tensors.h"

namespace ashlar::hf {

inline constexpr std::size_t kMaxShards = 1000;

struct Shards {
  std::vector<std::string> paths;
  std::vector<MappedFile> files;      // as paths
  std::vector<StoredTensor> tensors;  // of all files; names are unique
};

// model.safetensors.index.json says which files there are and which has what, and both must agree
// with the files; else model.safetensors, or the only file of that kind. Errors: kNotFound
// (listing what was looked for), kIo, those of ParseTensors; kCorrupt naming index, tensor and file
// where they disagree, and for a file name that leads elsewhere.
Result<Shards> OpenShards(const std::filesystem::path& folder);

// The files that an index names, each once, in order. `where` stands for the index in errors.
Result<std::vector<std::string>> FilesOfIndex(std::string_view text, const std::string& where);

}  // namespace ashlar::hf
