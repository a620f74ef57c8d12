#include "hf/int4.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "gguf/describe.h"

namespace ashlar::hf {
namespace {

constexpr std::uint64_t kBlock = 32;
constexpr std::uint64_t kWordNibbles = 8;
constexpr std::size_t kScaleBytes = 2;
constexpr std::size_t kNibblesBytes = kBlock / 2;
constexpr std::size_t kHighBytes = kBlock / 8;

// The nibble of a word in which AWQ has the output that is n-th of its eight.
constexpr std::array<std::uint32_t, kWordNibbles> kAwqPlace = {0, 4, 1, 5, 2, 6, 3, 7};

std::uint32_t WordAt(std::span<const std::byte> words, std::uint64_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, words.data() + index * sizeof word, sizeof word);
  return word;
}

std::uint32_t NibbleOf(std::uint32_t word, std::uint64_t place) { return word >> (4 * place) & 15; }

class Int4Rows : public gguf::RowMaker {
 public:
  struct Shape {
    std::uint64_t in = 0;
    std::uint64_t out = 0;
    std::uint64_t group = 0;
    bool is_symmetric = false;  // to Q4_0, else to Q5_0
  };
  Int4Rows(const Int4Spec& spec, const Int4Parts& parts, const Shape& shape,
           std::vector<std::uint32_t> row_order, std::span<const std::uint32_t> column_order)
      : spec_(spec),
        shape_(shape),
        qweight_(parts.qweight->data),
        qzeros_(parts.qzeros->data),
        scales_(parts.scales->data),
        row_order_(std::move(row_order)),
        column_order_(column_order) {
    block_groups_.reserve(shape.in / kBlock);
    for (std::uint64_t i = 0; i < shape.in; i += kBlock) {
      block_groups_.push_back(column_order.empty() ? static_cast<std::uint32_t>(i / shape.group)
                                                   : WordAt(parts.g_idx->data, column_order[i]));
    }
  }

  void Make(std::uint64_t first, std::uint64_t rows, std::byte* out) const override {
    const std::uint64_t blocks = shape_.in / kBlock;
    const std::size_t block_bytes =
        kScaleBytes + kNibblesBytes + (shape_.is_symmetric ? 0 : kHighBytes);
    // Block by block: rows that are neighbours have their words side by side.
    for (std::uint64_t block = 0; block < blocks; ++block) {
      for (std::uint64_t row = 0; row < rows; ++row) {
        const std::uint64_t output = row_order_.empty() ? first + row : row_order_[first + row];
        MakeBlock(block, output, out + (row * blocks + block) * block_bytes);
      }
    }
  }
  std::span<const std::byte> source() const override { return qweight_; }

 private:
  std::uint64_t InputAt(std::uint64_t column) const {
    return column_order_.empty() ? column : column_order_[column];
  }
  std::uint32_t CodeAt(std::uint64_t input, std::uint64_t output) const {
    if (spec_.layout == Int4Layout::kAwq) {
      return NibbleOf(WordAt(qweight_, input * (shape_.out / kWordNibbles) + output / kWordNibbles),
                      kAwqPlace[output % kWordNibbles]);
    }
    return NibbleOf(WordAt(qweight_, input / kWordNibbles * shape_.out + output),
                    input % kWordNibbles);
  }
  std::uint32_t ZeroAt(std::uint64_t group, std::uint64_t output) const {
    const std::uint64_t place = output % kWordNibbles;
    const std::uint32_t word =
        WordAt(qzeros_, group * (shape_.out / kWordNibbles) + output / kWordNibbles);
    return NibbleOf(word, spec_.layout == Int4Layout::kAwq ? kAwqPlace[place] : place) +
           spec_.zero_offset;
  }
  void MakeBlock(std::uint64_t block, std::uint64_t output, std::byte* to) const;

  Int4Spec spec_;
  Shape shape_;
  std::span<const std::byte> qweight_, qzeros_, scales_;
  std::vector<std::uint32_t> row_order_;
  std::span<const std::uint32_t> column_order_;
  std::vector<std::uint32_t> block_groups_;
};

// 32 inputs of an output. Their low four bits in halves (input j beside input j + 16), and in Q5_0
// before them the fifth bits, one after another.
void Int4Rows::MakeBlock(std::uint64_t block, std::uint64_t output, std::byte* to) const {
  const std::uint64_t begin = block * kBlock;
  const std::uint64_t group = block_groups_[block];
  std::memcpy(to, scales_.data() + (group * shape_.out + output) * kScaleBytes, kScaleBytes);
  const std::uint32_t raise = shape_.is_symmetric ? 0 : 16 - ZeroAt(group, output);
  std::array<std::uint8_t, kNibblesBytes> low{};
  std::uint32_t high = 0;
  for (std::uint64_t j = 0; j < kBlock; ++j) {
    const std::uint32_t code = CodeAt(InputAt(begin + j), output) + raise;
    low[j % kNibblesBytes] |= static_cast<std::uint8_t>((code & 15) << (j < kNibblesBytes ? 0 : 4));
    high |= (code >> 4 & 1) << j;
  }
  to += kScaleBytes;
  if (!shape_.is_symmetric) {
    std::memcpy(to, &high, kHighBytes);
    to += kHighBytes;
  }
  std::memcpy(to, low.data(), kNibblesBytes);
}

// One matrix being checked.
class Int4Matrix {
 public:
  Int4Matrix(const Int4Spec& spec, const Int4Parts& parts, const std::string& name)
      : spec_(spec), parts_(parts), name_(name) {}

  Result<Int4Rows::Shape> Shape();
  // Empty: as they stand. Precondition: Shape succeeded.
  Result<std::vector<std::uint32_t>> ColumnOrder(const Int4Rows::Shape& shape) const;

 private:
  Status Check(const StoredTensor* part, std::string_view leaf, std::string_view dtype,
               std::vector<std::uint64_t> dims) const;
  bool IsSymmetric() const;

  const Int4Spec& spec_;
  const Int4Parts& parts_;
  const std::string& name_;
};

Status Int4Matrix::Check(const StoredTensor* part, std::string_view leaf, std::string_view dtype,
                         std::vector<std::uint64_t> dims) const {
  if (part != nullptr && part->dtype == dtype && part->shape == dims) return {};
  const std::string is = part == nullptr
                             ? "missing"
                             : fmt::format("{} [{}]", part->dtype, fmt::join(part->shape, ", "));
  return MakeError(
      part == nullptr || part->dtype == dtype ? ErrorCode::kCorrupt : ErrorCode::kUnsupported,
      "tensor {} is {}; with the qweight of its matrix {} [{}] is needed",
      gguf::Quote(name_ + "." + std::string(leaf)), is, dtype, fmt::join(dims, ", "));
}

Result<Int4Rows::Shape> Int4Matrix::Shape() {
  const StoredTensor* const q = parts_.qweight;
  if (q == nullptr || q->shape.size() != 2 || q->dtype != "I32") {
    return MakeError(
        ErrorCode::kCorrupt, "tensor {} is {}; a matrix of I32 is needed",
        gguf::Quote(name_ + ".qweight"),
        q == nullptr ? "missing" : fmt::format("{} [{}]", q->dtype, fmt::join(q->shape, ", ")));
  }
  const bool is_awq = spec_.layout == Int4Layout::kAwq;
  Int4Rows::Shape shape = {.in = q->shape[0] * (is_awq ? 1 : kWordNibbles),
                           .out = q->shape[1] * (is_awq ? kWordNibbles : 1)};
  shape.group = spec_.group == 0 ? shape.in : spec_.group;
  if (shape.in == 0 || shape.out == 0 || shape.in % kBlock != 0 || shape.group % kBlock != 0 ||
      shape.in % shape.group != 0 || shape.out % kWordNibbles != 0) {
    return MakeError(ErrorCode::kUnsupported,
                     "the matrix {} has {} inputs in groups of {} and {} outputs; groups of a "
                     "multiple of 32 that divide the inputs, and a multiple of 8 outputs are read",
                     gguf::Quote(name_), shape.in, shape.group, shape.out);
  }
  const std::uint64_t groups = shape.in / shape.group;
  ASHLAR_TRY(Check(parts_.qzeros, "qzeros", "I32", {groups, shape.out / kWordNibbles}));
  ASHLAR_TRY(Check(parts_.scales, "scales", "F16", {groups, shape.out}));
  if (parts_.g_idx != nullptr) ASHLAR_TRY(Check(parts_.g_idx, "g_idx", "I32", {shape.in}));
  shape.is_symmetric = spec_.is_symmetric && IsSymmetric();
  return shape;
}

bool Int4Matrix::IsSymmetric() const {
  const std::uint32_t eights = 0x11111111u * (8 - spec_.zero_offset);
  for (std::uint64_t i = 0; i < parts_.qzeros->data.size() / sizeof eights; ++i) {
    if (WordAt(parts_.qzeros->data, i) != eights) return false;
  }
  return true;
}

Result<std::vector<std::uint32_t>> Int4Matrix::ColumnOrder(const Int4Rows::Shape& shape) const {
  if (parts_.g_idx == nullptr) return std::vector<std::uint32_t>();
  const std::span<const std::byte> g_idx = parts_.g_idx->data;
  const std::uint64_t groups = shape.in / shape.group;
  bool is_plain = true;
  for (std::uint64_t i = 0; i < shape.in; ++i) {
    const std::uint32_t group = WordAt(g_idx, i);
    if (group >= groups) {
      return MakeError(ErrorCode::kCorrupt, "tensor {} has {} at {}; its matrix has {} groups",
                       gguf::Quote(name_ + ".g_idx"), group, i, groups);
    }
    is_plain = is_plain && group == i / shape.group;
  }
  if (is_plain) return std::vector<std::uint32_t>();
  std::vector<std::uint32_t> order(shape.in);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return WordAt(g_idx, i); });
  for (std::uint64_t i = 0; i < shape.in; ++i) {
    const std::uint64_t first = i / kBlock * kBlock;
    if (WordAt(g_idx, order[i]) != WordAt(g_idx, order[first])) {
      return MakeError(ErrorCode::kUnsupported,
                       "tensor {}: group {} has a number of inputs that is no multiple of 32",
                       gguf::Quote(name_ + ".g_idx"), WordAt(g_idx, order[first]));
    }
  }
  return order;
}

// A field of quantization_config.
Error WrongField(const Object& object, std::string_view name, const std::string& where,
                 std::string_view right) {
  const auto value = FieldOf(object, name);
  return MakeError(ErrorCode::kUnsupported, "'{}': {} of the quantisation is {}; {}", where, name,
                   value ? Shown(*value) : "missing", right);
}

// Whether a field is there and says something else than `only`, in any case.
bool Differs(const Object& object, std::string_view name, std::string_view only) {
  const auto value = FieldOf(object, name);
  if (!value) return false;
  std::string shown(TextIn(*value).value_or(""));
  if (!TextIn(*value)) shown = Shown(*value);
  std::ranges::transform(shown, shown.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return shown != only;
}

Status ReadAwq(const Object& object, const std::string& where, Int4Spec& spec) {
  spec.layout = Int4Layout::kAwq;
  if (Differs(object, "version", "gemm")) {
    return WrongField(object, "version", where, "the layout gemm is read");
  }
  if (Differs(object, "zero_point", "true")) {
    return WrongField(object, "zero_point", where, "true is read");
  }
  return {};
}

Status ReadGptq(const Object& object, const std::string& where, Int4Spec& spec) {
  const auto format = FieldOf(object, "checkpoint_format");
  const std::string_view name = format ? TextIn(*format).value_or("") : "gptq";
  if (name != "gptq" && name != "gptq_v2") {
    return WrongField(object, "checkpoint_format", where, "gptq and gptq_v2 are read");
  }
  if (Differs(object, "is_marlin_format", "false")) {
    return WrongField(object, "is_marlin_format", where, "false is read");
  }
  spec.zero_offset = name == "gptq" ? 1 : 0;
  const auto symmetric = FieldOf(object, "sym");
  spec.is_symmetric = symmetric && FlagIn(*symmetric).value_or(false);
  return {};
}

}  // namespace

Result<Int4Spec> ParseInt4Spec(const Object& object, const std::string& where) {
  Int4Spec spec;
  const auto method = FieldOf(object, "quant_method");
  const std::string_view name = method ? TextIn(*method).value_or("of no name") : "gptq";
  if (name == "awq") {
    ASHLAR_TRY(ReadAwq(object, where, spec));
  } else if (name == "gptq") {
    ASHLAR_TRY(ReadGptq(object, where, spec));
  } else {
    return WrongField(object, "quant_method", where, "awq and gptq are read");
  }
  const auto bits = FieldOf(object, "bits");
  if (!bits || CountIn(*bits) != std::optional<std::uint64_t>(4)) {
    return WrongField(object, "bits", where, "4 is read");
  }
  const auto dynamic = FieldOf(object, "dynamic");
  if (dynamic && (!ObjectIn(*dynamic) || ObjectIn(*dynamic)->size() > 0)) {
    return WrongField(object, "dynamic", where, "one layout for all matrices is read");
  }
  const auto group = FieldOf(object, "group_size");
  const auto size = group ? NumberIn(*group) : std::nullopt;
  if (!size || (*size != -1 && !(*size >= 32 && *size <= 1 << 20))) {
    return WrongField(object, "group_size", where, "-1, or 32 and more is read");
  }
  spec.group = *size == -1 ? 0 : static_cast<std::uint64_t>(*size);
  return spec;
}

Result<std::optional<Int4Spec>> ReadInt4Spec(const Config& config) {
  const auto value = config.Find("quantization_config");
  if (!value) return std::optional<Int4Spec>();
  const auto object = ObjectIn(*value);
  if (!object || !FieldOf(*object, "quant_method")) {
    return config.Wrong("quantization_config", "an object with quant_method is needed");
  }
  ASHLAR_ASSIGN(const Int4Spec spec, ParseInt4Spec(*object, config.where()));
  return std::optional(spec);
}

Status AddInt4(const Int4Spec& spec, const Int4Parts& parts, const std::string& theirs,
               std::string ours, std::vector<std::uint32_t> row_order, Builder& builder) {
  Int4Matrix matrix(spec, parts, theirs);
  ASHLAR_ASSIGN(const Int4Rows::Shape shape, matrix.Shape());
  ASHLAR_ASSIGN(std::vector<std::uint32_t> columns, matrix.ColumnOrder(shape));
  if (!row_order.empty() && row_order.size() != shape.out) {
    return MakeError(ErrorCode::kCorrupt, "the matrix {} has {} outputs; its heads have {}",
                     gguf::Quote(theirs), shape.out, row_order.size());
  }
  const std::span<const std::uint32_t> order =
      columns.empty() ? std::span<const std::uint32_t>() : builder.KeepOrder(std::move(columns));
  gguf::Tensor& tensor =
      builder.AddTensor(std::move(ours), shape.is_symmetric ? DType::kQ4_0 : DType::kQ5_0);
  tensor.dims = {shape.in, shape.out};
  tensor.column_order = order;
  tensor.maker =
      builder.Keep(std::make_unique<Int4Rows>(spec, parts, shape, std::move(row_order), order));
  return {};
}

}  // namespace ashlar::hf
