#include "hf/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/describe.h"
#include "kernels/dequantize.h"

namespace ashlar::hf {
namespace {

using Order = std::vector<std::uint32_t>;

// Rows of a stored matrix in another order.
class ReorderedRows : public gguf::RowMaker {
 public:
  ReorderedRows(std::span<const std::byte> data, Order order)
      : data_(data), order_(std::move(order)), row_bytes_(data.size() / order_.size()) {}

  void Make(std::uint64_t first, std::uint64_t rows, std::byte* out) const override {
    for (std::uint64_t row = 0; row < rows; ++row) {
      std::memcpy(out + row * row_bytes_, data_.data() + order_[first + row] * row_bytes_,
                  row_bytes_);
    }
  }
  std::span<const std::byte> source() const override { return data_; }

 private:
  std::span<const std::byte> data_;
  Order order_;
  std::size_t row_bytes_;
};

// The columns of a stored matrix.
class TransposedRows : public gguf::RowMaker {
 public:
  TransposedRows(std::span<const std::byte> data, std::uint64_t rows, std::size_t element_bytes)
      : data_(data),
        columns_(data.size() / element_bytes / rows),
        rows_(rows),
        element_bytes_(element_bytes) {}

  void Make(std::uint64_t first, std::uint64_t rows, std::byte* out) const override {
    for (std::uint64_t column = 0; column < columns_; ++column) {
      for (std::uint64_t row = 0; row < rows; ++row) {
        std::memcpy(out + (row * columns_ + column) * element_bytes_,
                    data_.data() + (column * rows_ + first + row) * element_bytes_, element_bytes_);
      }
    }
  }
  std::span<const std::byte> source() const override { return data_; }

 private:
  std::span<const std::byte> data_;
  std::uint64_t columns_;
  std::uint64_t rows_;
  std::size_t element_bytes_;
};

class WeightsMapper {
 public:
  WeightsMapper(const WeightsContext& context, Builder& builder)
      : context_(context), builder_(builder) {}

  Status Map(std::span<const StoredTensor> stored) {
    for (const StoredTensor& tensor : stored) ASHLAR_TRY(Take(tensor));
    for (auto& [theirs, matrix] : int4_) {
      ASHLAR_ASSIGN(Order order, RowOrder(matrix.ours, matrix.rows, theirs));
      ASHLAR_TRY(AddInt4(*context_.int4, matrix.parts, theirs, matrix.ours + ".weight",
                         std::move(order), builder_));
    }
    return {};
  }

 private:
  struct Int4Named {
    std::string ours;
    std::uint64_t rows = 0;
    Int4Parts parts;
  };

  Status Take(const StoredTensor& tensor);
  Status TakeInt4(const StoredTensor& tensor, std::string_view module, std::string_view leaf,
                  const std::string& ours);
  Status Add(const StoredTensor& tensor, const std::string& ours, std::string_view leaf);
  Status AddVector(const StoredTensor& tensor, const std::string& ours, std::string name,
                   DType dtype);
  Result<Order> RowOrder(std::string_view ours, std::uint64_t rows, std::string_view theirs) const;
  Error Unknown(const StoredTensor& tensor) const {
    return MakeError(ErrorCode::kUnsupported,
                     "tensor {} is not part of a {} model as this build knows it; running without "
                     "it would give wrong answers",
                     gguf::Quote(tensor.name), context_.family.model_type);
  }

  const WeightsContext& context_;
  Builder& builder_;
  std::map<std::string, Int4Named, std::less<>> int4_;  // by their name
};

Status WeightsMapper::Take(const StoredTensor& tensor) {
  const std::string_view name = tensor.name;
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return Unknown(tensor);
  const std::string_view module = name.substr(0, dot);
  const std::string_view leaf = name.substr(dot + 1);
  const auto ours = OurModule(context_.family, module);
  if (!ours) return Unknown(tensor);
  if (ours->empty() || (*ours == "output" && context_.is_tied)) return {};
  for (const std::string_view part : {"qweight", "qzeros", "scales", "g_idx"}) {
    if (leaf == part) return TakeInt4(tensor, module, leaf, *ours);
  }
  if (leaf == "e_score_correction_bias" && ours->ends_with("ffn_gate_inp")) {  // DeepSeek-V3
    return Add(tensor, ours->substr(0, ours->rfind('.')) + ".exp_probs_b", "bias");
  }
  if (leaf != "weight" && leaf != "bias") return Unknown(tensor);
  return Add(tensor, *ours, leaf);
}

Status WeightsMapper::TakeInt4(const StoredTensor& tensor, std::string_view module,
                               std::string_view leaf, const std::string& ours) {
  if (!context_.int4) {
    return MakeError(ErrorCode::kUnsupported,
                     "tensor {} is part of a quantised matrix, but config.json has no "
                     "quantization_config that says how",
                     gguf::Quote(tensor.name));
  }
  if (ours == "token_embd" || ours.ends_with("norm") || ours.ends_with("attn_kv_b")) {
    return MakeError(ErrorCode::kUnsupported, "tensor {}: this matrix does not run in 4 bits here",
                     gguf::Quote(tensor.name));
  }
  Int4Named& matrix = int4_[std::string(module)];
  matrix.ours = ours;
  if (leaf == "qzeros") matrix.parts.qzeros = &tensor;
  if (leaf == "scales") {
    matrix.parts.scales = &tensor;
    if (tensor.shape.size() == 2) matrix.rows = tensor.shape[1];
  }
  if (leaf == "g_idx") matrix.parts.g_idx = &tensor;
  if (leaf == "qweight") matrix.parts.qweight = &tensor;
  return {};
}

// The order in which GGUF has the rows of a matrix; empty where it is the stored one.
Result<Order> WeightsMapper::RowOrder(std::string_view ours, std::uint64_t rows,
                                      std::string_view theirs) const {
  const bool is_query = ours.ends_with(".attn_q");
  const bool permutes = context_.family.permutes_heads && (is_query || ours.ends_with(".attn_k"));
  const bool interleaves = context_.has_interleaved_qkv && ours.ends_with(".attn_qkv");
  if (!permutes && !interleaves) return Order();
  const std::uint64_t kv_heads = context_.kv_heads;
  const std::uint64_t group = kv_heads == 0 ? 0 : context_.heads / kv_heads;
  const std::uint64_t heads = interleaves ? kv_heads * (group + 2)
                              : is_query  ? context_.heads
                                          : kv_heads;
  if (heads == 0 || rows == 0 || rows % (2 * heads) != 0 || rows > UINT32_MAX) {
    return MakeError(ErrorCode::kCorrupt,
                     "{} has {} rows; {} heads have an even number of them "
                     "each",
                     gguf::Quote(theirs), rows, heads);
  }
  const std::uint64_t wide = rows / heads;
  Order order;
  order.reserve(rows);
  const auto add_head = [&](std::uint64_t head) {
    for (std::uint64_t i = 0; i < wide; ++i) {
      // Pairs are (i, i + wide / 2) there, (2 i, 2 i + 1) in GGUF.
      const std::uint64_t channel = permutes ? i / 2 + i % 2 * (wide / 2) : i;
      order.push_back(static_cast<std::uint32_t>(head * wide + channel));
    }
  };
  if (permutes) {
    for (std::uint64_t head = 0; head < heads; ++head) add_head(head);
    return order;
  }
  // From kv head by kv head to all queries, all keys, all values.
  for (std::uint64_t head = 0; head < context_.heads; ++head) {
    add_head(head / group * (group + 2) + head % group);
  }
  for (const std::uint64_t part : {group, group + 1}) {
    for (std::uint64_t head = 0; head < kv_heads; ++head) add_head(head * (group + 2) + part);
  }
  return order;
}

std::optional<DType> DTypeOf(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  return std::nullopt;
}

Status WeightsMapper::Add(const StoredTensor& tensor, const std::string& ours,
                          std::string_view leaf) {
  const auto dtype = DTypeOf(tensor.dtype);
  if (!dtype) {
    return MakeError(ErrorCode::kUnsupported,
                     "tensor {} has the dtype {}; F32, F16 and BF16 are read, and the int4 layouts "
                     "of AWQ and GPTQ",
                     gguf::Quote(tensor.name), tensor.dtype);
  }
  std::vector<std::uint64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
  // A matrix of one row is a vector there.
  if (dims.size() == 2 && dims[1] == 1 && ours.ends_with("ffn_gate_inp_shexp")) dims.pop_back();
  if (dims.empty() || dims.size() > 2 || std::ranges::find(dims, 0u) != dims.end()) {
    return MakeError(ErrorCode::kCorrupt,
                     "tensor {} has the shape [{}]; a vector or a matrix is needed",
                     gguf::Quote(tensor.name), fmt::join(tensor.shape, ", "));
  }
  std::string name = ours + "." + std::string(leaf);
  if (dims.size() == 1) return AddVector(tensor, ours, std::move(name), *dtype);
  const bool is_transposed = context_.family.is_transposed && ours.starts_with("blk.");
  if (is_transposed) std::swap(dims[0], dims[1]);
  ASHLAR_ASSIGN(Order order, RowOrder(ours, dims[1], tensor.name));
  gguf::Tensor& added = builder_.AddTensor(std::move(name), *dtype);
  added.dims = dims;
  if (is_transposed) {
    added.maker = builder_.Keep(
        std::make_unique<TransposedRows>(tensor.data, dims[1], BytesOfDtype(tensor.dtype)));
  } else if (!order.empty()) {
    added.maker = builder_.Keep(std::make_unique<ReorderedRows>(tensor.data, std::move(order)));
  } else {
    added.data = tensor.data;
  }
  return {};
}

Status WeightsMapper::AddVector(const StoredTensor& tensor, const std::string& ours,
                                std::string name, DType dtype) {
  const std::uint64_t size = tensor.data.size() / BytesOfDtype(tensor.dtype);
  ASHLAR_ASSIGN(const Order order, RowOrder(ours, size, tensor.name));
  const bool is_raised = context_.family.raises_norms && ours.ends_with("norm");
  if (order.empty() && !is_raised) {
    gguf::Tensor& added = builder_.AddTensor(std::move(name), dtype);
    added.dims = {size};
    added.data = tensor.data;
    return {};
  }
  std::vector<float> values(size);
  kernels::DequantizeRow(dtype, tensor.data.data(), size, values.data());
  if (is_raised) {
    for (float& value : values) value += 1.0f;
  }
  std::vector<float> ordered(values);
  for (std::size_t i = 0; i < order.size(); ++i) ordered[i] = values[order[i]];
  builder_.AddFloats(std::move(name), std::move(ordered));
  return {};
}

}  // namespace

Status AddWeights(const WeightsContext& context, std::span<const StoredTensor> stored,
                  Builder& builder) {
  return WeightsMapper(context, builder).Map(stored);
}

}  // namespace ashlar::hf
