// make_tiny_folder NAME FOLDER writes a tiny random model as a folder of safetensors, and
// make_tiny_folder --dump MODEL TENSOR FILE a tensor of a model (GGUF's name) as f32, its columns
// in the order of the input; make_tiny_folder --list prints the names.
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "gguf/testing/gguf_writer.h"
#include "hf/model_folder.h"
#include "hf/testing/tiny_folder.h"
#include "kernels/dequantize.h"

namespace ashlar::hf {
namespace {

std::vector<float> ValuesOf(const gguf::Tensor& tensor) {
  const std::uint64_t columns = tensor.dims[0];
  std::vector<std::byte> stored(tensor.row_bytes());
  std::vector<float> row(columns);
  std::vector<float> values(tensor.elements());
  for (std::uint64_t r = 0; r < tensor.rows(); ++r) {
    tensor.ReadRows(r, 1, stored.data());
    kernels::DequantizeRow(tensor.dtype, stored.data(), columns, row.data());
    for (std::uint64_t c = 0; c < columns; ++c) {
      values[r * columns + (tensor.column_order.empty() ? c : tensor.column_order[c])] = row[c];
    }
  }
  return values;
}

Status Dump(const char* model, const char* name, const char* to) {
  ASHLAR_ASSIGN(const gguf::ModelFile file, OpenModel(model, FolderParts::kWithoutText));
  const gguf::Tensor* const tensor = file.FindTensor(name);
  if (tensor == nullptr) return MakeError(ErrorCode::kNotFound, "no tensor {}", name);
  const std::vector<float> values = ValuesOf(*tensor);
  std::printf("%.*s\n", static_cast<int>(NameOf(tensor->dtype).size()),
              NameOf(tensor->dtype).data());
  return gguf::WriteBytes(to, std::as_bytes(std::span(values)));
}

Status Run(std::span<char*> args) {
  if (args.size() == 5 && std::string_view(args[1]) == "--dump") {
    return Dump(args[2], args[3], args[4]);
  }
  if (args.size() == 2 && std::string_view(args[1]) == "--list") {
    for (const model::NamedTinyModel& model : model::AllTinyModels()) {
      if (CanBeFolder(model.options)) std::printf("%s\n", std::string(model.name).c_str());
    }
    return {};
  }
  if (args.size() != 3) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "usage: make_tiny_folder NAME FOLDER | --list | --dump MODEL TENSOR FILE");
  }
  ASHLAR_ASSIGN(const model::TinyModelOptions options, model::FindTinyModel(args[1]));
  return WriteTinyFolder(TinyFolderOf(options), options, args[2]);
}

}  // namespace
}  // namespace ashlar::hf

int main(int argc, char** argv) {
  const ashlar::Status done = ashlar::hf::Run({argv, static_cast<std::size_t>(argc)});
  if (done.ok()) return 0;
  std::fprintf(stderr, "make_tiny_folder: %s\n", done.error().message.c_str());
  return 1;
}
