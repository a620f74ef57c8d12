// One GGUF file's bytes, checked and turned into metadata and tensors. Knows nothing of other
// parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/model_file.h"

namespace ashlar::gguf {

struct FileContents {
  std::uint32_t version = 0;
  Metadata metadata;
  std::vector<Tensor> tensors;
};

// All that is returned points into `bytes`. `name` stands for the file in errors, which are
// kCorrupt or kUnsupported and name the byte where the wrong thing stands. O(bytes of metadata and
// directory).
Result<FileContents> ParseFile(std::span<const std::byte> bytes, const std::string& name);

}  // namespace ashlar::gguf
