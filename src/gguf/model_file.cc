#include "gguf/model_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "gguf/convert.h"
#include "gguf/describe.h"
#include "gguf/file_parser.h"
#include "gguf/format.h"
#include "gguf/split_name.h"

namespace ashlar::gguf {
namespace {

// What a file says about the split it is part of. A file without split.count is its own only part.
struct SplitInfo {
  std::uint64_t number = 0;  // from 0
  std::uint64_t count = 1;
  std::optional<std::uint64_t> tensors;  // in all parts
};

Result<std::uint64_t> UnsignedIn(const Metadata& metadata, std::string_view key,
                                 std::uint64_t fallback) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return fallback;
  return ToUnsigned(key, found->second);
}

Result<SplitInfo> ReadSplitKeys(const Metadata& metadata) {
  SplitInfo split;
  ASHLAR_ASSIGN(split.count, UnsignedIn(metadata, kSplitCountKey, 1));
  if (split.count <= 1) return SplitInfo();  // some tools write 0 or 1 into whole files
  if (split.count > kMaxParts) {
    return MakeError(ErrorCode::kCorrupt, "{} is {}; at most {} parts are read", kSplitCountKey,
                     split.count, kMaxParts);
  }
  ASHLAR_ASSIGN(split.number, UnsignedIn(metadata, kSplitNumberKey, split.count));
  if (split.number >= split.count) {
    return MakeError(ErrorCode::kCorrupt, "{} is {}; 0 to {} is needed, for {} is {}",
                     kSplitNumberKey,
                     metadata.contains(kSplitNumberKey) ? std::to_string(split.number) : "missing",
                     split.count - 1, kSplitCountKey, split.count);
  }
  if (metadata.contains(kSplitTensorsKey)) {
    ASHLAR_ASSIGN(split.tensors, UnsignedIn(metadata, kSplitTensorsKey, 0));
  }
  return split;
}

// The result, its error preceded by the file's name.
template <typename T>
Result<T> WithName(const std::string& name, Result<T> result) {
  if (result.ok()) return result;
  return MakeError(result.error().code, "'{}': {}", name, result.error().message);
}

// One part, checked on its own.
struct ParsedPart {
  FileContents contents;
  SplitInfo split;
};

Result<ParsedPart> ParsePart(std::span<const std::byte> bytes, const std::string& name) {
  ParsedPart part;
  ASHLAR_ASSIGN(part.contents, ParseFile(bytes, name));
  ASHLAR_ASSIGN(part.split, WithName(name, ReadSplitKeys(part.contents.metadata)));
  return part;
}

}  // namespace

std::size_t Array::size() const {
  return std::visit([](const auto& values) { return values.size(); }, elements);
}

std::uint64_t Tensor::elements() const {
  if (dims.empty()) return 0;
  std::uint64_t product = 1;
  for (const std::uint64_t dim : dims) product *= dim;
  return product;
}

void Tensor::ReadRows(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  if (maker != nullptr) {
    maker->Make(first, count, out);
  } else {
    std::ranges::copy(data.subspan(first * row_bytes(), count * row_bytes()), out);
  }
}

// A part with what keeps its bytes.
struct ModelFile::OpenPart {
  std::string name;
  std::optional<MappedFile> file;  // absent when the bytes are the caller's
  std::uint64_t bytes = 0;
  ParsedPart parsed;

  static Result<OpenPart> Open(const std::string& path) {
    ASHLAR_ASSIGN(MappedFile file, MappedFile::Open(path));
    ASHLAR_ASSIGN(ParsedPart parsed, ParsePart(file.bytes(), path));
    const std::uint64_t bytes = file.bytes().size();
    return OpenPart{path, std::move(file), bytes, std::move(parsed)};
  }
};

Result<ModelFile> ModelFile::Open(const std::string& path) {
  ASHLAR_ASSIGN(OpenPart opened, OpenPart::Open(path));
  const SplitInfo split = opened.parsed.split;
  std::vector<OpenPart> parts;
  if (split.count == 1) {
    parts.push_back(std::move(opened));
    return Join(std::move(parts));
  }
  auto name = ParseSplitName(path);
  if (!name || name->number != split.number + 1 || name->count != split.count) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "'{}' is part {} of {} of a split model, so its name must end in {}", path,
                     split.number + 1, split.count,
                     FormatSplitName({"", static_cast<std::uint32_t>(split.number + 1),
                                      static_cast<std::uint32_t>(split.count)}));
  }
  for (std::uint32_t number = 1; number <= split.count; ++number) {
    if (number == split.number + 1) continue;
    name->number = number;
    auto part = OpenPart::Open(FormatSplitName(*name));
    if (!part.ok()) {
      return MakeError(part.error().code, "part {} of {} of the split model: {}", number,
                       split.count, part.error().message);
    }
    parts.push_back(*std::move(part));
  }
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(split.number), std::move(opened));
  return Join(std::move(parts));
}

Result<ModelFile> ModelFile::Parse(std::span<const std::byte> bytes, std::string name) {
  const Part part{bytes, std::move(name)};
  return ParseParts({&part, 1});
}

Result<ModelFile> ModelFile::ParseParts(std::span<const Part> parts) {
  if (parts.empty()) return MakeError(ErrorCode::kInvalidArgument, "no parts of a model file");
  std::vector<OpenPart> open_parts;
  for (const Part& part : parts) {
    ASHLAR_ASSIGN(ParsedPart parsed, ParsePart(part.bytes, part.name));
    open_parts.push_back({part.name, std::nullopt, part.bytes.size(), std::move(parsed)});
  }
  return Join(std::move(open_parts));
}

// Precondition: !parts.empty().
Result<ModelFile> ModelFile::Join(std::vector<OpenPart> parts) {
  ModelFile model;
  std::uint64_t tensors_expected = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    OpenPart& part = parts[i];
    const SplitInfo& split = part.parsed.split;
    if (split.number != i || split.count != parts.size()) {
      return MakeError(ErrorCode::kCorrupt, "'{}' says that it is part {} of {}, not {} of {}",
                       part.name, split.number + 1, split.count, i + 1, parts.size());
    }
    FileContents& contents = part.parsed.contents;
    if (i == 0) {
      tensors_expected = split.tensors.value_or(0);
      model.version_ = contents.version;
      model.name_ = std::filesystem::path(part.name).stem().string();
      model.format_ = fmt::format("GGUF version {}", contents.version);
      model.metadata_ = std::move(contents.metadata);
    }
    for (Tensor& tensor : contents.tensors) {
      if (!model.tensor_index_.emplace(tensor.name, model.tensors_.size()).second) {
        return MakeError(ErrorCode::kCorrupt, "'{}': tensor {} is also in an earlier part",
                         part.name, Quote(tensor.name));
      }
      model.tensors_.push_back(std::move(tensor));
    }
    model.file_bytes_ += part.bytes;
    model.paths_.push_back(part.name);
    if (part.file) model.files_.push_back(*std::move(part.file));
  }
  if (parts[0].parsed.split.tensors && tensors_expected != model.tensors_.size()) {
    return MakeError(ErrorCode::kCorrupt, "'{}': {} is {}, but the parts hold {} tensors",
                     parts[0].name, kSplitTensorsKey, tensors_expected, model.tensors_.size());
  }
  return model;
}

Result<ModelFile> ModelFile::Assemble(Contents contents) {
  ModelFile model;
  model.kept_ = std::move(contents);
  model.name_ = model.kept_.name;
  model.format_ = model.kept_.format;
  model.paths_ = model.kept_.paths;
  model.files_ = std::move(model.kept_.files);
  for (const MappedFile& file : model.files_) model.file_bytes_ += file.bytes().size();
  model.metadata_ = std::move(model.kept_.metadata);
  model.tensors_ = std::move(model.kept_.tensors);
  for (std::size_t i = 0; i < model.tensors_.size(); ++i) {
    if (!model.tensor_index_.emplace(model.tensors_[i].name, i).second) {
      return MakeError(ErrorCode::kCorrupt, "'{}' has two tensors that stand for {}",
                       model.paths_[0], Quote(model.tensors_[i].name));
    }
  }
  return model;
}

const Value* ModelFile::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const Tensor* ModelFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<const Value*> ModelFile::Require(std::string_view key) const {
  if (const Value* value = Find(key)) return value;
  return MakeError(ErrorCode::kCorrupt, "'{}' has no key {}, which is needed", paths_[0],
                   Quote(key));
}

Result<std::uint64_t> ModelFile::Unsigned(std::string_view key) const {
  ASHLAR_ASSIGN(const Value* value, Require(key));
  return WithName(paths_[0], ToUnsigned(key, *value));
}

Result<double> ModelFile::Number(std::string_view key) const {
  ASHLAR_ASSIGN(const Value* value, Require(key));
  return WithName(paths_[0], ToNumber(key, *value));
}

Result<bool> ModelFile::Bool(std::string_view key) const {
  ASHLAR_ASSIGN(const Value* value, Require(key));
  return WithName(paths_[0], ToBool(key, *value));
}

Result<std::string_view> ModelFile::String(std::string_view key) const {
  ASHLAR_ASSIGN(const Value* value, Require(key));
  return WithName(paths_[0], ToString(key, *value));
}

Result<std::span<const std::string_view>> ModelFile::Strings(std::string_view key) const {
  ASHLAR_ASSIGN(const Value* value, Require(key));
  return WithName(paths_[0], ToStrings(key, *value));
}

Result<std::span<const std::int64_t>> ModelFile::Integers(std::string_view key) const {
  ASHLAR_ASSIGN(const Value* value, Require(key));
  return WithName(paths_[0], ToIntegers(key, *value));
}

Result<std::vector<double>> ModelFile::Numbers(std::string_view key) const {
  ASHLAR_ASSIGN(const Value* value, Require(key));
  return WithName(paths_[0], ToNumbers(key, *value));
}

Result<std::uint64_t> ModelFile::UnsignedOr(std::string_view key, std::uint64_t fallback) const {
  if (Find(key) == nullptr) return fallback;
  return Unsigned(key);
}

Result<double> ModelFile::NumberOr(std::string_view key, double fallback) const {
  if (Find(key) == nullptr) return fallback;
  return Number(key);
}

Result<bool> ModelFile::BoolOr(std::string_view key, bool fallback) const {
  if (Find(key) == nullptr) return fallback;
  return Bool(key);
}

Result<std::string_view> ModelFile::StringOr(std::string_view key,
                                             std::string_view fallback) const {
  if (Find(key) == nullptr) return fallback;
  return String(key);
}

Result<const Tensor*> ModelFile::RequireTensor(std::string_view name,
                                               std::span<const std::uint64_t> dims) const {
  const Tensor* tensor = FindTensor(name);
  if (tensor == nullptr) {
    return MakeError(ErrorCode::kCorrupt, "'{}' has no tensor {}, which is needed with dims {}",
                     paths_[0], Quote(name), DescribeDims(dims));
  }
  if (!std::ranges::equal(tensor->dims, dims)) {
    return MakeError(ErrorCode::kCorrupt, "'{}': tensor {} has dims {}; {} are needed", paths_[0],
                     Quote(name), DescribeDims(tensor->dims), DescribeDims(dims));
  }
  return tensor;
}

void ModelFile::DropPages(std::span<const std::byte> bytes) const {
  const std::less_equal<const std::byte*> not_after;
  for (const MappedFile& file : files_) {
    const std::byte* begin = file.bytes().data();
    if (begin == nullptr || !not_after(begin, bytes.data()) ||
        !not_after(bytes.data(), begin + file.bytes().size())) {
      continue;
    }
    file.DontNeed(static_cast<std::size_t>(bytes.data() - begin), bytes.size());
    return;
  }
}

void ModelFile::DropPages() const {
  for (const MappedFile& file : files_) file.DontNeed(0, file.bytes().size());
}

void ModelFile::Expect(MappedFile::Reading reading) const {
  for (const MappedFile& file : files_) file.Expect(reading);
}

}  // namespace ashlar::gguf
