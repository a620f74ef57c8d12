#include "model/tensor_packer.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/dequantize.h"

namespace ashlar::model {
namespace {

constexpr std::size_t kPanelsPerItem = 16;

// [columns, rows] f32 of a tensor's rows.
std::vector<float> Transposed(const gguf::Tensor& tensor, std::uint64_t first, std::uint64_t rows) {
  const std::uint64_t columns = tensor.dims[0];
  std::vector<float> row(columns);
  std::vector<float> out(rows * columns);
  std::vector<std::byte> stored(tensor.row_bytes());
  for (std::uint64_t r = 0; r < rows; ++r) {
    tensor.ReadRows(first + r, 1, stored.data());
    kernels::DequantizeRow(tensor.dtype, stored.data(), columns, row.data());
    for (std::uint64_t c = 0; c < columns; ++c) out[c * rows + r] = row[c];
  }
  return out;
}

}  // namespace

Result<const gguf::Tensor*> TensorPacker::Take(const std::string& name,
                                               std::initializer_list<std::uint64_t> dims) {
  ASHLAR_ASSIGN(const gguf::Tensor* const tensor, file_.RequireTensor(name, dims));
  taken_.insert(tensor->name);
  return tensor;
}

void TensorPacker::AddMatrix(const gguf::Tensor& tensor, std::uint64_t first, std::uint64_t rows,
                             Linear& linear) {
  linear.w = {.dtype = tensor.dtype, .n = rows, .k = tensor.dims[0], .data = nullptr};
  linear.order = tensor.column_order;
  Add({&tensor, first, rows, false, &linear.w, 0});
}

void TensorPacker::AddTransposed(const gguf::Tensor& tensor, std::uint64_t first,
                                 std::uint64_t rows, Linear& linear) {
  ASHLAR_CHECK(tensor.column_order.empty(), "{}", tensor.name);
  linear.w = {.dtype = DType::kF32, .n = tensor.dims[0], .k = rows, .data = nullptr};
  Add({&tensor, first, rows, true, &linear.w, 0});
}

void TensorPacker::Add(const PendingMatrix& matrix) {
  matrices_.push_back(matrix);
  matrices_.back().offset = packed_bytes_;
  packed_bytes_ += kernels::PackedBytes(matrix.view->dtype, matrix.view->n, matrix.view->k);
}

void TensorPacker::AddVector(const gguf::Tensor& tensor, std::uint64_t first, std::uint64_t size,
                             const float*& view) {
  vectors_.push_back({&tensor, first, size, &view, vector_floats_});
  vector_floats_ += size;
}

Status TensorPacker::CheckAllTaken(std::string_view architecture) const {
  for (const gguf::Tensor& tensor : file_.tensors()) {
    // Rotary frequencies that early converters stored although every reader computes them.
    if (tensor.name.ends_with(".attn_rot_embd") || tensor.name.ends_with(".rot_embd")) continue;
    if (!taken_.contains(tensor.name)) {
      return MakeError(
          ErrorCode::kUnsupported,
          "tensor '{}' is not part of the architecture '{}' as this build knows it; running "
          "without it would give wrong answers",
          tensor.name, architecture);
    }
  }
  return {};
}

void TensorPacker::Pack(ThreadPool& pool,
                        const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                        AlignedArray<std::byte>& packed, std::vector<float>& vectors) {
  packed = AlignedArray<std::byte>(packed_bytes_);
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const PendingMatrix& pending = matrices_[i];
    PackMatrix(pending, pool, packed.data() + pending.offset);
    const bool is_last_of_tensor =
        i + 1 == matrices_.size() || matrices_[i + 1].tensor != pending.tensor;
    if (is_last_of_tensor) file_.DropPages(*pending.tensor);
    if (progress) {
      progress(i + 1 == matrices_.size() ? packed_bytes_ : matrices_[i + 1].offset, packed_bytes_);
    }
  }
  vectors.resize(vector_floats_);
  std::vector<float> row;
  std::vector<std::byte> stored;
  for (const PendingVector& pending : vectors_) {
    float* const out = vectors.data() + pending.offset;
    const gguf::Tensor& tensor = *pending.tensor;
    const std::uint64_t columns = tensor.dims[0];
    row.resize(columns);
    stored.resize(tensor.row_bytes());
    tensor.ReadRows(pending.first / columns, 1, stored.data());
    kernels::DequantizeRow(tensor.dtype, stored.data(), columns, row.data());
    std::copy_n(row.data() + pending.first % columns, pending.size, out);
    *pending.view = out;
  }
}

void TensorPacker::PackMatrix(const PendingMatrix& pending, ThreadPool& pool,
                              std::byte* packed) const {
  kernels::PackedMatrix& view = *pending.view;
  view.data = packed;
  const gguf::Tensor& tensor = *pending.tensor;
  std::vector<float> transposed;
  const std::byte* rows = nullptr;  // where they all are; null: made item by item
  if (pending.is_transposed) {
    transposed = Transposed(tensor, pending.first, pending.rows);
    rows = reinterpret_cast<const std::byte*>(transposed.data());
  } else if (tensor.maker == nullptr) {
    rows = tensor.data.data() + pending.first * tensor.row_bytes();
  }
  const std::size_t panels = view.panels();
  pool.ParallelFor((panels + kPanelsPerItem - 1) / kPanelsPerItem,
                   [&](std::size_t item, std::size_t) {
                     const std::size_t begin = item * kPanelsPerItem;
                     const std::size_t end = std::min(panels, begin + kPanelsPerItem);
                     if (rows == nullptr) return PackMade(pending, begin, end, packed);
                     kernels::PackPanels({.dtype = view.dtype,
                                          .n = view.n,
                                          .k = view.k,
                                          .rows = rows,
                                          .packed = packed,
                                          .panel_begin = begin,
                                          .panel_end = end});
                   });
}

// Panels [begin, end) of a matrix whose rows are made, as a matrix of their own.
void TensorPacker::PackMade(const PendingMatrix& pending, std::size_t begin, std::size_t end,
                            std::byte* packed) {
  const kernels::PackedMatrix& view = *pending.view;
  const std::size_t first = begin * kernels::kPanelRows;
  const std::size_t count = std::min(view.n, end * kernels::kPanelRows) - first;
  AlignedArray<std::byte> rows(count * pending.tensor->row_bytes());
  pending.tensor->ReadRows(pending.first + first, count, rows.data());
  kernels::PackPanels({.dtype = view.dtype,
                       .n = count,
                       .k = view.k,
                       .rows = rows.data(),
                       .packed = packed + begin * kernels::PackedPanelBytes(view.dtype, view.k),
                       .panel_begin = 0,
                       .panel_end = end - begin});
}

}  // namespace ashlar::model
