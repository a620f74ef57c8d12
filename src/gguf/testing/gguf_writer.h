// Builds GGUF files for tests: small, obviously right, and able to lie on request.
//
//   GgufWriter writer;
//   writer.Set("general.architecture", "llama").SetUnsigned("llama.block_count", 2);
//   writer.AddFloats("output_norm.weight", {64}, weights);
//   const std::vector<std::byte> bytes = writer.Build();
//   auto file = gguf::ModelFile::Parse(bytes, "test");
//
// What it builds is a valid file, except for what the *Raw calls put into it: those write what they
// are told. Broken callers (a tensor whose bytes do not match its dims) stop the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "gguf/format.h"

namespace ashlar::gguf {

class GgufWriter {
 public:
  // Setting a key again replaces its value in place. All return *this.
  GgufWriter& Set(std::string_view key, std::string_view value);
  GgufWriter& SetUnsigned(std::string_view key, std::uint64_t value,
                          ValueType type = ValueType::kU32);
  GgufWriter& SetSigned(std::string_view key, std::int64_t value, ValueType type = ValueType::kI32);
  GgufWriter& SetFloat(std::string_view key, double value, ValueType type = ValueType::kF32);
  GgufWriter& SetBool(std::string_view key, bool value);
  GgufWriter& SetStrings(std::string_view key, std::span<const std::string> values);
  // `type` may be any integer type or kBool; values must fit it.
  GgufWriter& SetIntegers(std::string_view key, std::span<const std::int64_t> values,
                          ValueType type = ValueType::kI32);
  GgufWriter& SetFloats(std::string_view key, std::span<const double> values,
                        ValueType type = ValueType::kF32);
  // `payload` as it is, after the type's number.
  GgufWriter& SetRaw(std::string_view key, std::uint32_t type_code,
                     std::span<const std::byte> payload);
  // Precondition: the key was set.
  GgufWriter& Remove(std::string_view key);

  // Row length first: a matrix of `rows` x `columns` has dims {columns, rows}.
  GgufWriter& AddTensor(std::string_view name, std::span<const std::uint64_t> dims, DType dtype,
                        std::span<const std::byte> data);
  GgufWriter& AddTensor(std::string_view name, std::initializer_list<std::uint64_t> dims,
                        DType dtype, std::span<const std::byte> data);
  // An F32 tensor.
  GgufWriter& AddFloats(std::string_view name, std::initializer_list<std::uint64_t> dims,
                        std::span<const float> data);

  struct RawTensor {
    std::string name;
    std::vector<std::uint64_t> dims;
    std::uint32_t type_code = 0;
    std::optional<std::uint64_t> offset;  // where it really lies, when not given
    std::vector<std::byte> data;
  };
  GgufWriter& AddTensorRaw(RawTensor tensor);

  GgufWriter& set_version(std::uint32_t version);
  // Also sets general.alignment. Any number above 0.
  GgufWriter& set_alignment(std::uint32_t alignment);

  std::vector<std::byte> Build() const;

  // The file as `parts` files: the metadata in the first, tensors shared out in order, split.* keys
  // in all. Precondition: parts >= 1.
  std::vector<std::vector<std::byte>> BuildSplit(std::size_t parts) const;

  // Errors: kIo.
  Status WriteTo(const std::string& path) const;
  // Writes `prefix`-00001-of-0000N.gguf and so on; returns their paths. Errors: kIo.
  Result<std::vector<std::string>> WriteSplitTo(const std::string& prefix, std::size_t parts) const;

 private:
  struct Entry {
    std::string key;
    std::uint32_t type_code;
    std::vector<std::byte> payload;
  };

  std::vector<std::byte> BuildFile(std::span<const Entry> entries,
                                   std::span<const RawTensor> tensors) const;

  std::uint32_t version_ = kMaxVersion;
  std::uint64_t alignment_ = kDefaultAlignment;
  std::vector<Entry> entries_;
  std::vector<RawTensor> tensors_;
};

// Writes `bytes` to a new or emptied file. Errors: kIo.
Status WriteBytes(const std::string& path, std::span<const std::byte> bytes);

}  // namespace ashlar::gguf
