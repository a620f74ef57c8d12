#include "hf/tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "gguf/describe.h"
#include "gguf/format.h"
#include "hf/json.h"

namespace ashlar::hf {
namespace {

struct DtypeInfo {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DtypeInfo, 17> kDtypes = {{{"F64", 8},
                                                {"F32", 4},
                                                {"F16", 2},
                                                {"BF16", 2},
                                                {"F8_E4M3", 1},
                                                {"F8_E5M2", 1},
                                                {"F8_E8M0", 1},
                                                {"I64", 8},
                                                {"I32", 4},
                                                {"I16", 2},
                                                {"I8", 1},
                                                {"U64", 8},
                                                {"U32", 4},
                                                {"U16", 2},
                                                {"U8", 1},
                                                {"BOOL", 1},
                                                {"C64", 8}}};

const DtypeInfo* FindDtype(std::string_view name) {
  const auto found = std::ranges::find(kDtypes, name, &DtypeInfo::name);
  return found == kDtypes.end() ? nullptr : &*found;
}

// One file's header being read.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {}

  Result<std::vector<StoredTensor>> Read() {
    ASHLAR_ASSIGN(const std::string_view header, Header());
    ASHLAR_ASSIGN(const Json json, Json::Parse(header, name_));
    for (const auto field : json.root()) {
      if (field.key == "__metadata__") continue;
      if (entries_.size() == kMaxStoredTensors) {
        return MakeError(ErrorCode::kUnsupported, "'{}' has more than {} tensors", name_,
                         kMaxStoredTensors);
      }
      ASHLAR_TRY(Tensor(field.key, field.value));
    }
    ASHLAR_TRY(CheckPlaces());
    std::vector<StoredTensor> tensors;
    tensors.reserve(entries_.size());
    for (Entry& entry : entries_) tensors.push_back(std::move(entry.tensor));
    return tensors;
  }

 private:
  struct Entry {
    StoredTensor tensor;
    std::uint64_t begin;  // from the start of the data
  };

  Result<std::string_view> Header();
  Status Tensor(std::string_view name, const Element& value);
  Result<const DtypeInfo*> Dtype(const std::string& name, const Object& entry) const;
  Result<std::vector<std::uint64_t>> Counts(const std::string& name, const Object& entry,
                                            std::string_view field, std::size_t most) const;
  Status CheckPlaces();

  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
  std::set<std::string_view> names_;  // of the JSON's own memory
};

Result<std::string_view> HeaderReader::Header() {
  std::uint64_t length = 0;
  if (bytes_.size() < sizeof length) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}' has {} bytes; a safetensors file begins with 8 that tell the length of "
                     "its header",
                     name_, bytes_.size());
  }
  std::memcpy(&length, bytes_.data(), sizeof length);
  if (length > bytes_.size() - sizeof length) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}' says that its header has {} bytes, but {} are left: it is no "
                     "safetensors file, or only the beginning of one",
                     name_, length, bytes_.size() - sizeof length);
  }
  if (length > kMaxHeaderBytes) {
    return MakeError(ErrorCode::kUnsupported, "'{}' has a header of {} bytes; the format allows {}",
                     name_, length, kMaxHeaderBytes);
  }
  data_ = bytes_.subspan(sizeof length + length);
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()) + sizeof length, length);
}

Status HeaderReader::Tensor(std::string_view name, const Element& value) {
  if (name.empty() || name.size() > kMaxStoredNameBytes || gguf::FaultOfName(name)) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}': {} is no name of a tensor (1 to {} bytes, UTF-8 without control "
                     "characters)",
                     name_, gguf::Quote(name), kMaxStoredNameBytes);
  }
  if (!names_.insert(name).second) {
    return MakeError(ErrorCode::kCorrupt, "'{}' has two tensors {}", name_, gguf::Quote(name));
  }
  Entry entry{.tensor = {.name = std::string(name)}, .begin = 0};
  StoredTensor& tensor = entry.tensor;
  const auto fields = ObjectIn(value);
  if (!fields) {
    return MakeError(ErrorCode::kCorrupt, "'{}': tensor {} is {}; an object is needed", name_,
                     gguf::Quote(name), Shown(value));
  }
  ASHLAR_ASSIGN(const DtypeInfo* const dtype, Dtype(tensor.name, *fields));
  tensor.dtype = dtype->name;
  ASHLAR_ASSIGN(tensor.shape, Counts(tensor.name, *fields, "shape", kMaxStoredDims));
  ASHLAR_ASSIGN(const auto offsets, Counts(tensor.name, *fields, "data_offsets", 2));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_.size()) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}': tensor {} has data_offsets [{}]; begin and end are needed, within the "
                     "{} bytes of data of the file",
                     name_, gguf::Quote(name), fmt::join(offsets, ", "), data_.size());
  }
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : tensor.shape) {
    if (dim > 0 && elements > gguf::kMaxElements / dim) {
      return MakeError(ErrorCode::kCorrupt,
                       "'{}': tensor {} has the shape [{}]: more than 2^56 elements", name_,
                       gguf::Quote(name), fmt::join(tensor.shape, ", "));
    }
    elements *= dim;
  }
  if (elements * dtype->bytes != offsets[1] - offsets[0]) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}': tensor {} of {} [{}] needs {} bytes, but its data_offsets [{}, {}] are "
                     "{} apart",
                     name_, gguf::Quote(name), dtype->name, fmt::join(tensor.shape, ", "),
                     elements * dtype->bytes, offsets[0], offsets[1], offsets[1] - offsets[0]);
  }
  entry.begin = offsets[0];
  tensor.data = data_.subspan(offsets[0], offsets[1] - offsets[0]);
  entries_.push_back(std::move(entry));
  return {};
}

Result<const DtypeInfo*> HeaderReader::Dtype(const std::string& name, const Object& entry) const {
  const auto value = FieldOf(entry, "dtype");
  const auto text = value ? TextIn(*value) : std::nullopt;
  const DtypeInfo* const dtype = text ? FindDtype(*text) : nullptr;
  if (dtype != nullptr) return dtype;
  std::vector<std::string_view> known;
  std::ranges::transform(kDtypes, std::back_inserter(known), &DtypeInfo::name);
  return MakeError(text ? ErrorCode::kUnsupported : ErrorCode::kCorrupt,
                   "'{}': tensor {} has the dtype {}; the format has {}", name_, gguf::Quote(name),
                   value ? Shown(*value) : "of no name", fmt::join(known, ", "));
}

// Whole numbers in an array.
Result<std::vector<std::uint64_t>> HeaderReader::Counts(const std::string& name,
                                                        const Object& entry, std::string_view field,
                                                        std::size_t most) const {
  const auto value = FieldOf(entry, field);
  const auto array = value ? ArrayIn(*value) : std::nullopt;
  if (!array || array->size() > most) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}': the {} of tensor {} is {}; an array of at most {} numbers is needed",
                     name_, field, gguf::Quote(name), value ? Shown(*value) : "missing", most);
  }
  std::vector<std::uint64_t> counts;
  for (const Element element : *array) {
    const auto count = CountIn(element);
    if (!count) {
      return MakeError(ErrorCode::kCorrupt,
                       "'{}': the {} of tensor {} has {}; whole numbers are "
                       "needed",
                       name_, field, gguf::Quote(name), Shown(element));
    }
    counts.push_back(*count);
  }
  return counts;
}

// Data follow each other from the first byte to the last.
Status HeaderReader::CheckPlaces() {
  std::ranges::stable_sort(entries_, {}, [](const Entry& entry) {
    return std::pair(entry.begin, entry.tensor.data.size());
  });
  std::uint64_t end = 0;
  for (const Entry& entry : entries_) {
    if (entry.begin != end) {
      return MakeError(ErrorCode::kCorrupt,
                       "'{}': the data of tensor {} begin at {}, {} the {} that the tensors before "
                       "it take",
                       name_, gguf::Quote(entry.tensor.name), entry.begin,
                       entry.begin < end ? "inside" : "beyond", end);
    }
    end += entry.tensor.data.size();
  }
  if (end != data_.size()) {
    return MakeError(ErrorCode::kCorrupt, "'{}' has {} bytes of data, of which its tensors take {}",
                     name_, data_.size(), end);
  }
  return {};
}

}  // namespace

std::size_t BytesOfDtype(std::string_view dtype) {
  const DtypeInfo* const info = FindDtype(dtype);
  return info == nullptr ? 0 : info->bytes;
}

Result<std::vector<StoredTensor>> ParseTensors(std::span<const std::byte> bytes,
                                               const std::string& name) {
  return HeaderReader(bytes, name).Read();
}

}  // namespace ashlar::hf
