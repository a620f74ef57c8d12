// A model as GGUF describes one: metadata by key, tensors by name. Read from a GGUF file (versions
// 2 and 3, one file or split into several), mapped and checked; other formats are put into its
// words by their readers (hf/) and joined by Assemble.
//
// Everything in the file is hostile until checked: every length, offset, count and overlap is
// compared with the bytes that are there before it is used. After Open succeeds every tensor's span
// lies inside its file, has exactly the size that its dtype and dimensions call for and shares no
// byte with another. The reader knows the format, not the models: keys mean nothing to it (but for
// general.alignment and split.*). Keys and tensor names are UTF-8 without control characters;
// string values are any bytes.
//
// Cost: opening reads the metadata and the tensor directory only; tensor data is touched by whoever
// reads it. Memory held is bounded by a few times the size of the metadata (limits: format.h).
// Strings are views into the mapping: valid while the ModelFile lives, also after it is moved.
//
// Immutable once made; const methods may be called from any thread at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "base/result.h"

namespace ashlar::gguf {

// A metadata array of numbers, booleans or strings (nested arrays are kUnsupported: no model uses
// them).
class Array {
 public:
  using Numbers = std::vector<double>;
  using Integers = std::vector<std::int64_t>;  // a u64 above 2^63 - 1 is kUnsupported
  using Strings = std::vector<std::string_view>;
  std::variant<Integers, Numbers, Strings> elements;  // bool arrays become integers 0 and 1
  std::size_t size() const;
};

// One metadata value, widened to the largest type of its kind.
using Value = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, Array>;

using Metadata = std::map<std::string_view, Value>;

// Rows that no file holds as they are wanted: made from what it holds, when somebody asks.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  // Writes rows [first, first + rows) of the tensor as its dtype stores them. On any thread.
  virtual void Make(std::uint64_t first, std::uint64_t rows, std::byte* out) const = 0;
  // Most of what it reads, in its file.
  virtual std::span<const std::byte> source() const = 0;
};

struct Tensor {
  std::string_view name;
  DType dtype = DType::kF32;
  // Row length first, as GGUF stores them: a matrix of `rows` x `columns` has dims {columns, rows}.
  // One to four of them, none 0; the row length is a whole number of the dtype's blocks.
  std::vector<std::uint64_t> dims;
  // Rows one after another, RowBytes(dtype, dims[0]) each. Starts at a multiple of 8 bytes of its
  // file. Empty where there is a maker.
  std::span<const std::byte> data;
  const RowMaker* maker = nullptr;
  // [dims[0]], a permutation: what stands in column c of the rows belongs to column
  // column_order[c] of the input. Empty: each to its own.
  std::span<const std::uint32_t> column_order;

  std::uint64_t elements() const;
  std::uint64_t rows() const { return dims.empty() ? 0 : elements() / dims[0]; }
  std::uint64_t row_bytes() const { return *RowBytes(dtype, dims[0]); }
  std::uint64_t bytes() const { return rows() * row_bytes(); }
  // Copies rows [first, first + rows), or makes them.
  void ReadRows(std::uint64_t first, std::uint64_t rows, std::byte* out) const;
};

class ModelFile {
 public:
  // Opens `path`; when it is one part of a split file ("name-00001-of-00003.gguf", split.count >
  // 1), opens all its parts. Errors: kNotFound, kIo, kInvalidArgument (a part whose name does not
  // tell the others' names), kCorrupt (naming what is wrong and at which byte), kUnsupported
  // (version, byte order, tensor type or nesting we do not read, naming it).
  static Result<ModelFile> Open(const std::string& path);

  // Reads one whole file held in memory. `bytes` must outlive the result and should begin at a
  // multiple of 8, for tensors do only if it does. `name` stands for the file in errors.
  static Result<ModelFile> Parse(std::span<const std::byte> bytes, std::string name);

  // Reads all parts of a split file held in memory, in order.
  struct Part {
    std::span<const std::byte> bytes;
    std::string name;
  };
  static Result<ModelFile> ParseParts(std::span<const Part> parts);

  // A model that another reader found, in GGUF's words. `metadata` and `tensors` point into `files`
  // and what is kept beside them.
  struct Contents {
    std::string name;                // the folder's
    std::string format;              // "safetensors"
    std::vector<std::string> paths;  // not empty; the first stands for the model in errors
    std::vector<MappedFile> files;
    std::deque<std::string> texts;  // stay where they are when the deque is moved
    std::deque<std::vector<std::uint32_t>> orders;
    std::deque<std::vector<float>> floats;
    std::vector<std::unique_ptr<const RowMaker>> makers;
    Metadata metadata;
    std::vector<Tensor> tensors;
  };
  // Errors: kCorrupt (two tensors of one name).
  static Result<ModelFile> Assemble(Contents contents);

  // What people call it: the file's name, or the folder's.
  const std::string& name() const { return name_; }
  // "GGUF version 3"
  const std::string& format() const { return format_; }
  std::uint32_t version() const { return version_; }  // of GGUF; 0: another format
  const std::vector<std::string>& paths() const { return paths_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  // Of a split file: that of the first part. The others repeat some of it and add nothing.
  const Metadata& metadata() const { return metadata_; }
  // In file order, part after part. Names are unique.
  const std::vector<Tensor>& tensors() const { return tensors_; }

  // nullptr when there is no such key / tensor.
  const Value* Find(std::string_view key) const;
  const Tensor* FindTensor(std::string_view name) const;

  // The value of `key` as a type, or kCorrupt naming the key, what it holds (or that it is missing)
  // and what is needed. Integers convert when the value fits; integers convert to double.
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

  // The required tensor, with dims checked; kCorrupt names the tensor, its dims and those wanted.
  Result<const Tensor*> RequireTensor(std::string_view name,
                                      std::span<const std::uint64_t> dims) const;
  Result<const Tensor*> RequireTensor(std::string_view name,
                                      std::initializer_list<std::uint64_t> dims) const {
    return RequireTensor(name, std::span(dims.begin(), dims.size()));
  }

  // Gives the pages that lie wholly in `bytes`, a part of one file, back to the system (they were
  // copied elsewhere). Advice only.
  void DropPages(std::span<const std::byte> bytes) const;
  // All pages: those that are still needed come again when they are touched.
  void DropPages() const;
  void Expect(MappedFile::Reading reading) const;

 private:
  struct OpenPart;

  ModelFile() = default;

  static Result<ModelFile> Join(std::vector<OpenPart> parts);
  Result<const Value*> Require(std::string_view key) const;

  std::string name_;
  std::string format_;
  std::uint32_t version_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::vector<std::string> paths_;
  std::vector<MappedFile> files_;  // empty when the bytes are the caller's
  Contents kept_;                  // of Assemble: what the others point into
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace ashlar::gguf
