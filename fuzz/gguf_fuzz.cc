// Any bytes at all as a model file: an error, or a ModelFile that keeps its promises (Walk checks
// them). Where "GGUF" stands again inside the input a new part of a split file begins, so that
// joining parts is fuzzed too.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gguf/model_file.h"
#include "gguf/testing/walk.h"

namespace {

using ashlar::gguf::ModelFile;

constexpr std::size_t kMaxFuzzedParts = 4;

// Each part in memory of its own, so that a sanitizer sees a read beyond its end.
std::vector<std::vector<std::byte>> CutIntoParts(std::string_view input) {
  std::vector<std::vector<std::byte>> parts;
  while (true) {
    const bool is_last = parts.size() + 1 == kMaxFuzzedParts;
    const std::size_t next = is_last ? std::string_view::npos : input.find("GGUF", 1);
    const auto part = std::as_bytes(std::span(input.substr(0, next)));
    parts.emplace_back(part.begin(), part.end());
    if (next == std::string_view::npos) return parts;
    input.remove_prefix(next);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto files = CutIntoParts({reinterpret_cast<const char*>(data), size});
  std::vector<ModelFile::Part> parts;
  for (const auto& file : files) parts.push_back({file, "fuzz"});
  const auto model = ModelFile::ParseParts(parts);
  if (!model.ok()) return 0;
  (void)ashlar::gguf::Walk(*model, parts);
  return 0;
}
