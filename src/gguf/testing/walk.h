// Reads all that a ModelFile gives out, and checks its promises against the bytes that it was read
// from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf/model_file.h"

namespace ashlar::gguf {

// Touches every byte of every key, value, name and tensor, and stops the process (ASHLAR_CHECK)
// when one lies outside `parts`, when tensors overlap or have the wrong size, or when a look-up
// does not find what is listed. The result depends on everything read: equal contents give equal
// digests.
std::uint64_t Walk(const ModelFile& file, std::span<const ModelFile::Part> parts);

// Of a file of one part.
std::uint64_t Walk(const ModelFile& file, std::span<const std::byte> bytes);

}  // namespace ashlar::gguf
