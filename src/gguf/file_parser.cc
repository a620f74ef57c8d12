#include "gguf/file_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include "gguf/describe.h"
#include "gguf/format.h"

namespace ashlar::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");

// A tensor as the directory tells it, before its place is checked.
struct DirectoryEntry {
  Tensor tensor;  // without data
  std::uint64_t entry_byte = 0;
  std::uint64_t data_offset = 0;  // from the start of the data
  std::uint64_t data_bytes = 0;
};

// Calls visit(T{}) with the C++ type of a number or boolean. Precondition: SizeOf(type) > 0.
template <typename Visitor>
auto VisitScalarType(ValueType type, const Visitor& visit) {
  switch (type) {
    case ValueType::kU8:
      return visit(std::uint8_t{});
    case ValueType::kI8:
      return visit(std::int8_t{});
    case ValueType::kU16:
      return visit(std::uint16_t{});
    case ValueType::kI16:
      return visit(std::int16_t{});
    case ValueType::kU32:
      return visit(std::uint32_t{});
    case ValueType::kI32:
      return visit(std::int32_t{});
    case ValueType::kF32:
      return visit(float{});
    case ValueType::kBool:
      return visit(bool{});
    case ValueType::kU64:
      return visit(std::uint64_t{});
    case ValueType::kI64:
      return visit(std::int64_t{});
    case ValueType::kF64:
      return visit(double{});
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  ASHLAR_CHECK(false, "value type {} is no scalar", static_cast<std::uint32_t>(type));
}

template <typename T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

class FileParser {
 public:
  FileParser(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {}

  Result<FileContents> Parse();

 private:
  Status ParseHeader();
  Status CheckMagicAndVersion();

  Status ParseKey();
  Result<Value> ParseValue(ValueType type);
  template <typename T>
  Result<Value> ParseScalar();
  Result<Array> ParseArray();
  template <typename T>
  Result<Array> ParseScalars(std::uint64_t count);
  Result<Array> ParseStrings(std::uint64_t count);

  Result<DirectoryEntry> ParseTensor();
  Status ParseDims(Tensor& tensor);
  Result<DType> ParseTensorType();
  Result<std::uint64_t> DataBytes(const Tensor& tensor, std::uint64_t at) const;
  Result<std::uint64_t> Alignment(std::uint64_t directory_end) const;
  Status PlaceTensors(std::vector<DirectoryEntry> entries);
  Status CheckOverlaps(std::span<const DirectoryEntry> entries) const;

  // The next sizeof(T) bytes as a T. `what` is what they are, for the error when they are not
  // there.
  template <typename T>
  Result<T> Read(std::string_view what);
  // A length and as many bytes; nullopt, and nothing read, when they are not there.
  std::optional<std::string_view> NextString();
  Result<std::string_view> ReadString(std::string_view what);
  // A key, or a tensor's name.
  Result<std::string_view> ReadName(std::string_view what, std::uint64_t max_bytes);
  Result<ValueType> ReadValueType(std::string_view what);

  std::uint64_t remaining() const { return bytes_.size() - offset_; }

  // "value of key 'general.name'": what is being read, and whose it is.
  std::string Subject(std::string_view what) const {
    if (owner_.empty()) return std::string(what);
    return fmt::format("{} of {} {}", what, owner_kind_, Quote(owner_));
  }
  template <typename... Args>
  Error Fail(ErrorCode code, std::uint64_t at, fmt::format_string<Args...> format,
             Args&&... args) const {
    return MakeError(code, "'{}', byte {}: {}", name_, at,
                     fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  Error Corrupt(std::uint64_t at, fmt::format_string<Args...> format, Args&&... args) const {
    return Fail(ErrorCode::kCorrupt, at, format, std::forward<Args>(args)...);
  }

  const std::span<const std::byte> bytes_;
  const std::string& name_;
  std::uint64_t offset_ = 0;  // of the next byte to read; <= bytes_.size()
  std::string_view owner_kind_ = "key";
  std::string_view owner_;  // the key or tensor being read; empty outside one
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t array_elements_ = 0;  // of all arrays so far
  FileContents contents_;
};

Result<FileContents> FileParser::Parse() {
  ASHLAR_TRY(ParseHeader());
  for (std::uint64_t i = 0; i < key_count_; ++i) ASHLAR_TRY(ParseKey());

  owner_kind_ = "tensor";
  std::vector<DirectoryEntry> entries;
  entries.reserve(tensor_count_);
  std::set<std::string_view> names;
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    ASHLAR_ASSIGN(DirectoryEntry entry, ParseTensor());
    if (!names.insert(entry.tensor.name).second) {
      return Corrupt(entry.entry_byte, "tensor {} appears a second time", Quote(entry.tensor.name));
    }
    entries.push_back(std::move(entry));
  }
  ASHLAR_TRY(PlaceTensors(std::move(entries)));
  return std::move(contents_);
}

// --- Header ---

Status FileParser::ParseHeader() {
  ASHLAR_TRY(CheckMagicAndVersion());
  const std::uint64_t at = offset_;
  ASHLAR_ASSIGN(tensor_count_, Read<std::uint64_t>("number of tensors"));
  ASHLAR_ASSIGN(key_count_, Read<std::uint64_t>("number of keys"));
  if (tensor_count_ > kMaxTensors) {
    return Corrupt(at, "{} tensors; at most {} are read", tensor_count_, kMaxTensors);
  }
  if (key_count_ > kMaxKeys) {
    return Corrupt(at + 8, "{} keys; at most {} are read", key_count_, kMaxKeys);
  }
  // The shortest key: length, 1 byte of name, type, 1 byte of value. The shortest tensor: length, 1
  // byte of name, number of dims, 1 dim, type, offset.
  const std::uint64_t least_bytes =
      key_count_ * (8 + 1 + 4 + 1) + tensor_count_ * (8 + 1 + 4 + 8 + 4 + 8);
  if (least_bytes > remaining()) {
    return Corrupt(at, "{} tensors and {} keys need at least {} bytes, but {} are left",
                   tensor_count_, key_count_, least_bytes, remaining());
  }
  return {};
}

Status FileParser::CheckMagicAndVersion() {
  const std::string_view start(reinterpret_cast<const char*>(bytes_.data()),
                               std::min<std::size_t>(bytes_.size(), 16));
  ASHLAR_ASSIGN(const auto magic, Read<std::uint32_t>("magic number 'GGUF'"));
  const std::uint64_t version_byte = offset_;
  if (magic != kMagic && magic != kSwappedMagic) {
    const bool is_lfs_pointer = start.starts_with("version https:/");
    return Corrupt(0, "not a GGUF file: it starts with {} instead of 'GGUF'{}", Quote(start),
                   is_lfs_pointer ? " (a Git LFS pointer: fetch the file behind it)" : "");
  }
  ASHLAR_ASSIGN(const auto version, Read<std::uint32_t>("version"));
  if (magic == kSwappedMagic || (version & 0xFFFF) == 0) {
    return Fail(ErrorCode::kUnsupported, version_byte,
                "a big-endian file; only little-endian ones are read");
  }
  if (version < kMinVersion || version > kMaxVersion) {
    return Fail(ErrorCode::kUnsupported, version_byte,
                "GGUF version {}; versions {} to {} are read", version, kMinVersion, kMaxVersion);
  }
  contents_.version = version;
  return {};
}

// --- Metadata ---

Status FileParser::ParseKey() {
  const std::uint64_t at = offset_;
  owner_ = {};
  ASHLAR_ASSIGN(const std::string_view key, ReadName("key", kMaxKeyBytes));
  owner_ = key;
  if (contents_.metadata.contains(key)) {
    return Corrupt(at, "key {} appears a second time", Quote(key));
  }
  ASHLAR_ASSIGN(const ValueType type, ReadValueType("type"));
  ASHLAR_ASSIGN(Value value, ParseValue(type));
  contents_.metadata.emplace(key, std::move(value));
  owner_ = {};
  return {};
}

Result<Value> FileParser::ParseValue(ValueType type) {
  if (type == ValueType::kString) {
    ASHLAR_ASSIGN(const std::string_view text, ReadString("value"));
    return Value(text);
  }
  if (type == ValueType::kArray) {
    ASHLAR_ASSIGN(Array array, ParseArray());
    return Value(std::move(array));
  }
  return VisitScalarType(type, [&](auto zero) { return ParseScalar<decltype(zero)>(); });
}

template <typename T>
Result<Value> FileParser::ParseScalar() {
  const std::uint64_t at = offset_;
  if constexpr (std::is_same_v<T, bool>) {
    ASHLAR_ASSIGN(const auto byte, Read<std::uint8_t>("value"));
    if (byte > 1) return Corrupt(at, "the {} is {}; a boolean is 0 or 1", Subject("value"), byte);
    return Value(byte == 1);
  } else {
    ASHLAR_ASSIGN(const auto value, Read<T>("value"));
    if constexpr (std::is_floating_point_v<T>) return Value(static_cast<double>(value));
    if constexpr (std::is_signed_v<T>) return Value(static_cast<std::int64_t>(value));
    return Value(static_cast<std::uint64_t>(value));
  }
}

Result<Array> FileParser::ParseArray() {
  const std::uint64_t type_byte = offset_;
  ASHLAR_ASSIGN(const ValueType type, ReadValueType("element type"));
  if (type == ValueType::kArray) {
    return Fail(ErrorCode::kUnsupported, type_byte,
                "the {} is an array of arrays, which is not read", Subject("value"));
  }
  const std::uint64_t at = offset_;
  ASHLAR_ASSIGN(const auto count, Read<std::uint64_t>("number of elements"));
  if (count > kMaxArrayElements - array_elements_) {
    return Corrupt(at, "the {} has {} elements; at most {} are read in all arrays of a file",
                   Subject("value"), count, kMaxArrayElements);
  }
  array_elements_ += count;
  const std::uint64_t least_bytes = count * (type == ValueType::kString ? 8 : SizeOf(type));
  if (least_bytes > remaining()) {
    return Corrupt(at, "the {} has {} elements, which need at least {} bytes, but {} are left",
                   Subject("value"), count, least_bytes, remaining());
  }
  if (type == ValueType::kString) return ParseStrings(count);
  return VisitScalarType(type, [&](auto zero) { return ParseScalars<decltype(zero)>(count); });
}

// Precondition: the bytes of all elements are there.
template <typename T>
Result<Array> FileParser::ParseScalars(std::uint64_t count) {
  using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
  std::vector<Wide> elements;
  elements.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto element = Load<Stored>(bytes_.data() + offset_);
    if constexpr (std::is_same_v<T, bool>) {
      if (element > 1) {
        return Corrupt(offset_, "element {} of the {} is {}; a boolean is 0 or 1", i,
                       Subject("value"), element);
      }
    }
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (!std::in_range<std::int64_t>(element)) {
        return Fail(ErrorCode::kUnsupported, offset_,
                    "element {} of the {} is {}; at most 2^63 - 1 is read", i, Subject("value"),
                    element);
      }
    }
    elements.push_back(static_cast<Wide>(element));
    offset_ += sizeof(Stored);
  }
  return Array{std::move(elements)};
}

Result<Array> FileParser::ParseStrings(std::uint64_t count) {
  Array::Strings elements;
  elements.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    // A vocabulary has hundreds of thousands of them: no Result for each.
    const auto element = NextString();
    if (!element) return ReadString("value").error();
    elements.push_back(*element);
  }
  return Array{std::move(elements)};
}

// --- Tensor directory ---

Result<DirectoryEntry> FileParser::ParseTensor() {
  DirectoryEntry entry;
  entry.entry_byte = offset_;
  Tensor& tensor = entry.tensor;
  owner_ = {};
  ASHLAR_ASSIGN(tensor.name, ReadName("tensor name", kMaxTensorNameBytes));
  owner_ = tensor.name;
  ASHLAR_TRY(ParseDims(tensor));
  ASHLAR_ASSIGN(tensor.dtype, ParseTensorType());
  ASHLAR_ASSIGN(entry.data_bytes, DataBytes(tensor, entry.entry_byte));
  ASHLAR_ASSIGN(entry.data_offset, Read<std::uint64_t>("data offset"));
  owner_ = {};
  return entry;
}

Status FileParser::ParseDims(Tensor& tensor) {
  const std::uint64_t count_byte = offset_;
  ASHLAR_ASSIGN(const auto count, Read<std::uint32_t>("number of dims"));
  if (count < 1 || count > kMaxDims) {
    return Corrupt(count_byte, "tensor {} has {} dims; 1 to {} are possible", Quote(tensor.name),
                   count, kMaxDims);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t at = offset_;
    ASHLAR_ASSIGN(const auto dim, Read<std::uint64_t>("dims"));
    if (dim == 0) return Corrupt(at, "dim {} of tensor {} is 0", i, Quote(tensor.name));
    tensor.dims.push_back(dim);
  }
  return {};
}

Result<DType> FileParser::ParseTensorType() {
  const std::uint64_t at = offset_;
  ASHLAR_ASSIGN(const auto code, Read<std::uint32_t>("type"));
  if (const auto dtype = DTypeOfCode(code)) return *dtype;
  std::string readable;
  for (const DTypeInfo& info : AllDTypes()) readable.append(" ").append(info.name);
  const std::string_view name = TensorTypeName(code);
  return Fail(
      ErrorCode::kUnsupported, at, "tensor {} has type {}; these are read:{}", Quote(owner_),
      name.empty() ? fmt::format("{}, which is unknown", code) : std::string(name), readable);
}

// Bytes of all rows. `at` is where the tensor's entry begins.
Result<std::uint64_t> FileParser::DataBytes(const Tensor& tensor, std::uint64_t at) const {
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : tensor.dims) {
    if (dim > kMaxElements / elements) {
      return Corrupt(at, "tensor {} has dims {}: more than 2^56 elements", Quote(tensor.name),
                     DescribeDims(tensor.dims));
    }
    elements *= dim;
  }
  const auto row_bytes = RowBytes(tensor.dtype, tensor.dims[0]);
  if (!row_bytes) {
    return Corrupt(at, "tensor {} has rows of {} elements; {} packs {} together",
                   Quote(tensor.name), tensor.dims[0], NameOf(tensor.dtype),
                   InfoOf(tensor.dtype).block_elements);
  }
  return *row_bytes * (elements / tensor.dims[0]);
}

Result<std::uint64_t> FileParser::Alignment(std::uint64_t directory_end) const {
  const auto found = contents_.metadata.find(kAlignmentKey);
  if (found == contents_.metadata.end()) return kDefaultAlignment;
  const auto* alignment = std::get_if<std::uint64_t>(&found->second);
  if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment < kMinAlignment ||
      *alignment > kMaxAlignment) {
    return Corrupt(directory_end, "{} is {}; an unsigned power of two from {} to {} is needed",
                   kAlignmentKey, Describe(found->second), kMinAlignment, kMaxAlignment);
  }
  return *alignment;
}

Status FileParser::PlaceTensors(std::vector<DirectoryEntry> entries) {
  ASHLAR_ASSIGN(const std::uint64_t alignment, Alignment(offset_));
  const std::uint64_t start = (offset_ + alignment - 1) / alignment * alignment;
  // A file without tensors may end before the padding does.
  const auto data = bytes_.subspan(std::min<std::uint64_t>(start, bytes_.size()));
  for (const DirectoryEntry& entry : entries) {
    if (entry.data_offset % alignment != 0) {
      return Corrupt(entry.entry_byte, "the data of tensor {} are at offset {}, no multiple of {}",
                     Quote(entry.tensor.name), entry.data_offset, alignment);
    }
    if (entry.data_bytes > data.size() || entry.data_offset > data.size() - entry.data_bytes) {
      return Corrupt(
          entry.entry_byte,
          "the data of tensor {}, {} bytes at offset {}, end outside the file, which has "
          "{} bytes of tensor data from byte {}",
          Quote(entry.tensor.name), entry.data_bytes, entry.data_offset, data.size(), start);
    }
  }
  ASHLAR_TRY(CheckOverlaps(entries));
  contents_.tensors.reserve(entries.size());
  for (DirectoryEntry& entry : entries) {
    entry.tensor.data = data.subspan(entry.data_offset, entry.data_bytes);
    contents_.tensors.push_back(std::move(entry.tensor));
  }
  return {};
}

// Precondition: every tensor lies inside the data.
Status FileParser::CheckOverlaps(std::span<const DirectoryEntry> entries) const {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(entries[i].data_offset, i); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const DirectoryEntry& left = entries[order[i - 1]];
    const DirectoryEntry& right = entries[order[i]];
    if (left.data_offset + left.data_bytes > right.data_offset) {
      return Corrupt(right.entry_byte,
                     "the data of tensor {}, at offset {}, overlap those of tensor {}, {} bytes at "
                     "offset {}",
                     Quote(right.tensor.name), right.data_offset, Quote(left.tensor.name),
                     left.data_bytes, left.data_offset);
    }
  }
  return {};
}

// --- Bytes ---

template <typename T>
Result<T> FileParser::Read(std::string_view what) {
  if (remaining() < sizeof(T)) {
    return Corrupt(offset_, "the file ends inside the {}: {} bytes needed, {} left", Subject(what),
                   sizeof(T), remaining());
  }
  const T value = Load<T>(bytes_.data() + offset_);
  offset_ += sizeof(T);
  return value;
}

std::optional<std::string_view> FileParser::NextString() {
  std::uint64_t length = 0;
  if (remaining() < sizeof(length)) return std::nullopt;
  length = Load<std::uint64_t>(bytes_.data() + offset_);
  if (length > remaining() - sizeof(length)) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(bytes_.data() + offset_ + sizeof(length));
  offset_ += sizeof(length) + length;
  return std::string_view(text, length);
}

Result<std::string_view> FileParser::ReadString(std::string_view what) {
  if (const auto text = NextString()) return *text;
  const std::uint64_t at = offset_;
  ASHLAR_ASSIGN(const auto length, Read<std::uint64_t>(what));
  return Corrupt(at, "the {} is {} bytes long, but {} are left", Subject(what), length,
                 remaining());
}

Result<std::string_view> FileParser::ReadName(std::string_view what, std::uint64_t max_bytes) {
  const std::uint64_t at = offset_;
  ASHLAR_ASSIGN(const std::string_view name, ReadString(what));
  if (name.size() > max_bytes) {
    return Corrupt(at, "the {} {} is {} bytes long; at most {} are possible", what, Quote(name),
                   name.size(), max_bytes);
  }
  if (const auto fault = FaultOfName(name)) {
    return Corrupt(at, "the {} {} {}", what, Quote(name), *fault);
  }
  return name;
}

Result<ValueType> FileParser::ReadValueType(std::string_view what) {
  const std::uint64_t at = offset_;
  ASHLAR_ASSIGN(const auto code, Read<std::uint32_t>(what));
  if (code >= kValueTypes) {
    return Corrupt(at, "the {} is {}; 0 to {} are possible", Subject(what), code, kValueTypes - 1);
  }
  return static_cast<ValueType>(code);
}

}  // namespace

Result<FileContents> ParseFile(std::span<const std::byte> bytes, const std::string& name) {
  return FileParser(bytes, name).Parse();
}

}  // namespace ashlar::gguf
