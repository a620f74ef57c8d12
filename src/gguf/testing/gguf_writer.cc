#include "gguf/testing/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <utility>

#include "base/check.h"

namespace ashlar::gguf {
namespace {

using Bytes = std::vector<std::byte>;

void AppendLittleEndian(Bytes& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<std::byte>(value >> (8 * i) & 0xFF));
  }
}

void AppendU32(Bytes& out, std::uint32_t value) { AppendLittleEndian(out, value, 4); }
void AppendU64(Bytes& out, std::uint64_t value) { AppendLittleEndian(out, value, 8); }

void AppendBytes(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void AppendString(Bytes& out, std::string_view text) {
  AppendU64(out, text.size());
  AppendBytes(out, std::as_bytes(std::span(text)));
}

void AppendPadding(Bytes& out, std::uint64_t alignment) {
  while (out.size() % alignment != 0) out.push_back(std::byte{0});
}

// `value` must be what is left of it after a round trip through `type`.
void AppendInteger(Bytes& out, std::int64_t value, ValueType type) {
  const std::size_t bytes = SizeOf(type);
  if (bytes < 8) {
    const bool is_signed =
        type == ValueType::kI8 || type == ValueType::kI16 || type == ValueType::kI32;
    const int bits = type == ValueType::kBool ? 1 : static_cast<int>(8 * bytes);
    const std::int64_t low = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
    const std::int64_t high = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    ASHLAR_CHECK(value >= low && value <= high, "{} does not fit value type {}", value,
                 static_cast<std::uint32_t>(type));
  }
  AppendLittleEndian(out, static_cast<std::uint64_t>(value), bytes);
}

void AppendFloat(Bytes& out, double value, ValueType type) {
  ASHLAR_CHECK(type == ValueType::kF32 || type == ValueType::kF64, "value type {} is no float",
               static_cast<std::uint32_t>(type));
  if (type == ValueType::kF32) {
    AppendU32(out, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  } else {
    AppendU64(out, std::bit_cast<std::uint64_t>(value));
  }
}

void AppendArrayHead(Bytes& out, ValueType type, std::size_t count) {
  AppendU32(out, static_cast<std::uint32_t>(type));
  AppendU64(out, count);
}

std::uint64_t ExpectedBytes(std::span<const std::uint64_t> dims, DType dtype) {
  ASHLAR_CHECK(!dims.empty(), "a tensor needs dims");
  const auto row_bytes = RowBytes(dtype, dims[0]);
  ASHLAR_CHECK(row_bytes.has_value(), "a row of {} elements is not whole blocks of {}", dims[0],
               NameOf(dtype));
  std::uint64_t bytes = *row_bytes;
  for (const std::uint64_t dim : dims.subspan(1)) bytes *= dim;
  return bytes;
}

}  // namespace

GgufWriter& GgufWriter::Set(std::string_view key, std::string_view value) {
  Bytes payload;
  AppendString(payload, value);
  return SetRaw(key, static_cast<std::uint32_t>(ValueType::kString), payload);
}

GgufWriter& GgufWriter::SetUnsigned(std::string_view key, std::uint64_t value, ValueType type) {
  Bytes payload;
  if (type == ValueType::kU64) {
    AppendU64(payload, value);
  } else {
    ASHLAR_CHECK(std::in_range<std::int64_t>(value), "{} does not fit", value);
    AppendInteger(payload, static_cast<std::int64_t>(value), type);
  }
  return SetRaw(key, static_cast<std::uint32_t>(type), payload);
}

GgufWriter& GgufWriter::SetSigned(std::string_view key, std::int64_t value, ValueType type) {
  Bytes payload;
  AppendInteger(payload, value, type);
  return SetRaw(key, static_cast<std::uint32_t>(type), payload);
}

GgufWriter& GgufWriter::SetFloat(std::string_view key, double value, ValueType type) {
  Bytes payload;
  AppendFloat(payload, value, type);
  return SetRaw(key, static_cast<std::uint32_t>(type), payload);
}

GgufWriter& GgufWriter::SetBool(std::string_view key, bool value) {
  const std::byte payload = value ? std::byte{1} : std::byte{0};
  return SetRaw(key, static_cast<std::uint32_t>(ValueType::kBool), {&payload, 1});
}

GgufWriter& GgufWriter::SetStrings(std::string_view key, std::span<const std::string> values) {
  Bytes payload;
  AppendArrayHead(payload, ValueType::kString, values.size());
  for (const std::string& value : values) AppendString(payload, value);
  return SetRaw(key, static_cast<std::uint32_t>(ValueType::kArray), payload);
}

GgufWriter& GgufWriter::SetIntegers(std::string_view key, std::span<const std::int64_t> values,
                                    ValueType type) {
  Bytes payload;
  AppendArrayHead(payload, type, values.size());
  for (const std::int64_t value : values) AppendInteger(payload, value, type);
  return SetRaw(key, static_cast<std::uint32_t>(ValueType::kArray), payload);
}

GgufWriter& GgufWriter::SetFloats(std::string_view key, std::span<const double> values,
                                  ValueType type) {
  Bytes payload;
  AppendArrayHead(payload, type, values.size());
  for (const double value : values) AppendFloat(payload, value, type);
  return SetRaw(key, static_cast<std::uint32_t>(ValueType::kArray), payload);
}

GgufWriter& GgufWriter::SetRaw(std::string_view key, std::uint32_t type_code,
                               std::span<const std::byte> payload) {
  Entry entry{std::string(key), type_code, Bytes(payload.begin(), payload.end())};
  const auto old = std::ranges::find(entries_, key, &Entry::key);
  if (old != entries_.end()) {
    *old = std::move(entry);
  } else {
    entries_.push_back(std::move(entry));
  }
  return *this;
}

GgufWriter& GgufWriter::Remove(std::string_view key) {
  const auto entry = std::ranges::find(entries_, key, &Entry::key);
  ASHLAR_CHECK(entry != entries_.end(), "no key '{}' to remove", key);
  entries_.erase(entry);
  return *this;
}

GgufWriter& GgufWriter::AddTensor(std::string_view name, std::span<const std::uint64_t> dims,
                                  DType dtype, std::span<const std::byte> data) {
  ASHLAR_CHECK(data.size() == ExpectedBytes(dims, dtype), "tensor '{}' needs {} bytes, not {}",
               name, ExpectedBytes(dims, dtype), data.size());
  return AddTensorRaw({.name = std::string(name),
                       .dims = {dims.begin(), dims.end()},
                       .type_code = TensorTypeCode(dtype),
                       .offset = std::nullopt,
                       .data = {data.begin(), data.end()}});
}

GgufWriter& GgufWriter::AddTensor(std::string_view name, std::initializer_list<std::uint64_t> dims,
                                  DType dtype, std::span<const std::byte> data) {
  return AddTensor(name, std::span(dims.begin(), dims.size()), dtype, data);
}

GgufWriter& GgufWriter::AddFloats(std::string_view name, std::initializer_list<std::uint64_t> dims,
                                  std::span<const float> data) {
  return AddTensor(name, dims, DType::kF32, std::as_bytes(data));
}

GgufWriter& GgufWriter::AddTensorRaw(RawTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

GgufWriter& GgufWriter::set_version(std::uint32_t version) {
  version_ = version;
  return *this;
}

GgufWriter& GgufWriter::set_alignment(std::uint32_t alignment) {
  ASHLAR_CHECK(alignment > 0, "alignment 0");
  alignment_ = alignment;
  return SetUnsigned(kAlignmentKey, alignment);
}

Bytes GgufWriter::Build() const { return BuildFile(entries_, tensors_); }

std::vector<Bytes> GgufWriter::BuildSplit(std::size_t parts) const {
  ASHLAR_CHECK(parts >= 1, "a file has at least one part");
  std::vector<Bytes> files;
  for (std::size_t part = 0; part < parts; ++part) {
    GgufWriter file;
    if (part == 0) file.entries_ = entries_;
    if (alignment_ != kDefaultAlignment) file.SetUnsigned(kAlignmentKey, alignment_);
    file.SetUnsigned(kSplitNumberKey, part, ValueType::kU16)
        .SetUnsigned(kSplitCountKey, parts, ValueType::kU16)
        .SetSigned(kSplitTensorsKey, static_cast<std::int64_t>(tensors_.size()));
    const std::size_t begin = tensors_.size() * part / parts;
    const std::size_t end = tensors_.size() * (part + 1) / parts;
    files.push_back(BuildFile(file.entries_, std::span(tensors_).subspan(begin, end - begin)));
  }
  return files;
}

Bytes GgufWriter::BuildFile(std::span<const Entry> entries,
                            std::span<const RawTensor> tensors) const {
  Bytes out;
  AppendU32(out, kMagic);
  AppendU32(out, version_);
  AppendU64(out, tensors.size());
  AppendU64(out, entries.size());
  for (const Entry& entry : entries) {
    AppendString(out, entry.key);
    AppendU32(out, entry.type_code);
    AppendBytes(out, entry.payload);
  }
  Bytes data;
  for (const RawTensor& tensor : tensors) {
    AppendString(out, tensor.name);
    AppendU32(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) AppendU64(out, dim);
    AppendU32(out, tensor.type_code);
    AppendU64(out, tensor.offset.value_or(data.size()));
    AppendBytes(data, tensor.data);
    AppendPadding(data, alignment_);
  }
  AppendPadding(out, alignment_);
  AppendBytes(out, data);
  return out;
}

Status GgufWriter::WriteTo(const std::string& path) const { return WriteBytes(path, Build()); }

Result<std::vector<std::string>> GgufWriter::WriteSplitTo(const std::string& prefix,
                                                          std::size_t parts) const {
  const std::vector<Bytes> files = BuildSplit(parts);
  std::vector<std::string> paths;
  for (std::size_t part = 0; part < files.size(); ++part) {
    paths.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, parts));
    ASHLAR_TRY(WriteBytes(paths.back(), files[part]));
  }
  return paths;
}

Status WriteBytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return MakeError(ErrorCode::kIo, "cannot write {} bytes to '{}'", bytes.size(), path);
  return {};
}

}  // namespace ashlar::gguf
