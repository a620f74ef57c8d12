// A GGUF model file (versions 2 and 3, one file or split into several), mapped and checked.
//
// Everything in the file is hostile until checked: every length, offset, count and overlap is
// compared with the bytes that are there before it is used. After Open succeeds every tensor's span
// lies inside its file and has exactly the size that its dtype and dimensions call for. The reader
// knows the format, not the models: keys mean nothing to it.
//
// Cost: opening reads the metadata and the tensor directory only; tensor data is touched by whoever
// reads it. Strings and arrays are views into the mapping: valid while the ModelFile lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "base/result.h"

namespace ashlar::gguf {

class Array;

// One metadata value, widened to the largest type of its kind.
using Value = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, Array>;

// A metadata array of numbers, booleans or strings (nested arrays are kUnsupported: no model uses
// them).
class Array {
 public:
  using Numbers = std::vector<double>;
  using Integers = std::vector<std::int64_t>;
  using Strings = std::vector<std::string_view>;
  std::variant<Integers, Numbers, Strings> elements;  // bool arrays become integers 0 and 1
  std::size_t size() const;
};

struct Tensor {
  std::string_view name;
  DType dtype;
  // Row length first, as GGUF stores them: a matrix of `rows` x `columns` has dims {columns, rows}.
  std::vector<std::uint64_t> dims;
  std::span<const std::byte> data;  // rows one after another, RowBytes(dtype, dims[0]) each

  std::uint64_t elements() const;
  std::uint64_t rows() const { return dims.empty() ? 0 : elements() / dims[0]; }
};

class ModelFile {
 public:
  // Opens `path`; when it is one part of a split file ("name-00001-of-00003.gguf", split.count >
  // 1), opens all its parts. Errors: kNotFound, kIo, kCorrupt (naming what is wrong and at which
  // byte), kUnsupported (version, tensor type or nesting we do not read, naming it).
  static Result<ModelFile> Open(const std::string& path);

  // Reads one file held in memory. `bytes` must outlive the result.
  static Result<ModelFile> Parse(std::span<const std::byte> bytes, std::string name);

  std::uint32_t version() const { return version_; }
  const std::vector<std::string>& paths() const { return paths_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  const std::map<std::string_view, Value>& metadata() const { return metadata_; }
  // In file order. Names are unique.
  const std::vector<Tensor>& tensors() const { return tensors_; }

  // nullptr when there is no such key / tensor.
  const Value* Find(std::string_view key) const;
  const Tensor* FindTensor(std::string_view name) const;

  // The value of `key` as a type, or an error that names the key, what it holds and what is needed.
  // Integers convert when the value fits; integers convert to double.
  Result<std::uint64_t> Unsigned(std::string_view key) const;
  Result<double> Number(std::string_view key) const;
  Result<bool> Bool(std::string_view key) const;
  Result<std::string_view> String(std::string_view key) const;
  Result<std::span<const std::string_view>> Strings(std::string_view key) const;
  Result<std::span<const std::int64_t>> Integers(std::string_view key) const;
  Result<std::vector<double>> Numbers(std::string_view key) const;

  // As above, but a missing key gives `fallback`; a key of the wrong type is still an error.
  Result<std::uint64_t> UnsignedOr(std::string_view key, std::uint64_t fallback) const;
  Result<double> NumberOr(std::string_view key, double fallback) const;
  Result<bool> BoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> StringOr(std::string_view key, std::string_view fallback) const;

  // The required tensor, with dims checked; the error names the tensor, its dims and those wanted.
  Result<const Tensor*> RequireTensor(std::string_view name,
                                      std::span<const std::uint64_t> dims) const;

  // Gives the pages behind `tensor` back to the system (it was copied elsewhere). Advice only.
  void DropPages(const Tensor& tensor) const;

 private:
  std::uint32_t version_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::vector<std::string> paths_;
  std::vector<MappedFile> files_;
  std::map<std::string_view, Value> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace ashlar::gguf
