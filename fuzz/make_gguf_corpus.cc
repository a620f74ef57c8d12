// make_gguf_corpus FOLDER: writes the seed inputs of gguf_fuzz. Small and few: each is a shape that
// mutation would take long to find.
#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/testing/gguf_writer.h"
#include "gguf/testing/sample_files.h"

namespace ashlar::gguf {
namespace {

// As gguf_fuzz takes them: one part behind the other.
std::vector<std::byte> Joined(const std::vector<std::vector<std::byte>>& parts) {
  std::vector<std::byte> joined;
  for (const auto& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

GgufWriter TwoTensors() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama")
      .AddFloats("a.weight", {4, 2}, std::vector<float>(8, 1.0f))
      .AddTensor("b.weight", {32}, DType::kQ4_1, std::vector<std::byte>(20));
  return writer;
}

Status WriteAll(const std::string& folder) {
  const struct {
    const char* name;
    std::vector<std::byte> bytes;
  } seeds[] = {
      {"empty", GgufWriter().Build()},
      {"every_value_type", EveryValueType().Build()},
      {"small_model", SmallModel().Build()},
      {"two_tensors", TwoTensors().Build()},
      {"two_tensors_v2", TwoTensors().set_version(2).Build()},
      {"alignment_8", TwoTensors().set_alignment(8).Build()},
      {"alignment_64", TwoTensors().set_alignment(64).Build()},
      {"split_in_two", Joined(TwoTensors().BuildSplit(2))},
      {"split_in_three", Joined(SmallModel().BuildSplit(3))},
  };
  for (const auto& seed : seeds) ASHLAR_TRY(WriteBytes(folder + "/" + seed.name, seed.bytes));
  return {};
}

}  // namespace
}  // namespace ashlar::gguf

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  const ashlar::Status status = ashlar::gguf::WriteAll(argv[1]);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().message);
  return 1;
}
