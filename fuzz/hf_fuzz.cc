// Any bytes at all as a file of a model's folder: an error, or something that keeps its promises.
// The first byte says which file: 'h' a safetensors file, 'i' an index, 't' a tokenizer.json, 'm' a
// config.json, a zero byte and a safetensors file.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "hf/builder.h"
#include "hf/config.h"
#include "hf/int4.h"
#include "hf/shards.h"
#include "hf/tensors.h"
#include "hf/tokenizer.h"
#include "hf/weights.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace ashlar::hf {
namespace {

// In memory of its own, so that a sanitizer sees a read beyond its end.
std::vector<std::byte> Copied(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void FuzzTensors(std::string_view input) {
  const std::vector<std::byte> bytes = Copied(input);
  const auto tensors = ParseTensors(bytes, "fuzz");
  if (!tensors.ok()) return;
  std::size_t taken = 0;
  const std::byte* end = nullptr;
  for (const StoredTensor& tensor : *tensors) {
    std::uint64_t size = BytesOfDtype(tensor.dtype);
    for (const std::uint64_t dim : tensor.shape) size *= dim;
    ASHLAR_CHECK(size == tensor.data.size(), "{}", tensor.name);
    ASHLAR_CHECK(end == nullptr || tensor.data.data() == end, "{}", tensor.name);
    end = tensor.data.data() + tensor.data.size();
    taken += tensor.data.size();
  }
  ASHLAR_CHECK(taken <= bytes.size() && (end == nullptr || end == bytes.data() + bytes.size()));
}

void FuzzIndex(std::string_view input) {
  const auto files = FilesOfIndex(input, "fuzz");
  if (!files.ok()) return;
  for (const std::string& file : *files) {
    ASHLAR_CHECK(file.find('/') == file.npos && file.ends_with(".safetensors"), "{}", file);
  }
}

void FuzzTokenizer(std::string_view input) {
  const auto json = Json::Parse(input, "fuzz");
  if (!json.ok()) return;
  Builder builder("llama");
  if (!ReadVocabulary(*json, 512, builder).ok()) return;
  builder.contents().paths = {"fuzz"};
  const auto file = gguf::ModelFile::Assemble(std::move(builder.contents()));
  ASHLAR_CHECK(file.ok(), "{}", file.error().message);
  const auto tokenizer = text::Tokenizer::Create(*file);
  if (!tokenizer.ok()) return;
  for (const TokenId token :
       (*tokenizer)->Encode("Hello <s> 12", {.add_special = true, .parse_special = true})) {
    ASHLAR_CHECK(token >= 0 && token < 512, "{}", token);
  }
}

Status FuzzModel(std::string_view config_text, std::string_view tensors_text) {
  const std::vector<std::byte> bytes = Copied(tensors_text);
  ASHLAR_ASSIGN(const Json json, Json::Parse(config_text, "fuzz"));
  const Config config(json);
  ASHLAR_ASSIGN(const Family* const family, FamilyOf(config));
  Builder builder{std::string(family->architecture)};
  builder.SetText("general.architecture", family->architecture);
  ASHLAR_TRY(ReadConfig(config, *family, builder));
  ASHLAR_ASSIGN(const auto stored, ParseTensors(bytes, "fuzz"));
  ASHLAR_ASSIGN(const auto int4, ReadInt4Spec(config));
  const auto& metadata = builder.contents().metadata;
  const auto count = [&](std::string_view key) {
    return std::get<std::uint64_t>(
        metadata.find(builder.architecture() + "." + std::string(key))->second);
  };
  const WeightsContext context = {.family = *family,
                                  .int4 = int4,
                                  .has_interleaved_qkv = family->interleaves_qkv,
                                  .heads = count("attention.head_count"),
                                  .kv_heads = count("attention.head_count_kv")};
  ASHLAR_TRY(AddWeights(context, stored, builder));
  builder.contents().paths = {"fuzz"};
  ASHLAR_ASSIGN(const auto file, gguf::ModelFile::Assemble(std::move(builder.contents())));
  std::vector<std::byte> row;
  for (const gguf::Tensor& tensor : file.tensors()) {
    row.resize(tensor.row_bytes());
    for (std::uint64_t r = 0; r < tensor.rows(); ++r) tensor.ReadRows(r, 1, row.data());
    for (const std::uint32_t column : tensor.column_order) {
      ASHLAR_CHECK(column < tensor.dims[0], "{}", column);
    }
  }
  (void)model::ModelConfig::Read(file);
  return {};
}

}  // namespace
}  // namespace ashlar::hf

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char kind = static_cast<char>(data[0]);
  if (kind == 'h') ashlar::hf::FuzzTensors(input);
  if (kind == 'i') ashlar::hf::FuzzIndex(input);
  if (kind == 't') ashlar::hf::FuzzTokenizer(input);
  if (kind == 'm') {
    const std::size_t cut = input.find('\0');
    if (cut != input.npos) {
      (void)ashlar::hf::FuzzModel(input.substr(0, cut), input.substr(cut + 1));
    }
  }
  return 0;
}
