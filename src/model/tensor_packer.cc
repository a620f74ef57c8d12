#include "model/tensor_packer.h"

#include <algorithm>

#include "kernels/dequantize.h"

namespace ashlar::model {
namespace {

constexpr std::size_t kPanelsPerItem = 16;

// [columns, rows] f32 of a tensor's rows.
std::vector<float> Transposed(const gguf::Tensor& tensor, std::uint64_t first, std::uint64_t rows) {
  const std::uint64_t columns = tensor.dims[0];
  const std::size_t row_bytes = *RowBytes(tensor.dtype, columns);
  std::vector<float> row(columns);
  std::vector<float> out(rows * columns);
  for (std::uint64_t r = 0; r < rows; ++r) {
    kernels::DequantizeRow(tensor.dtype, tensor.data.data() + (first + r) * row_bytes, columns,
                           row.data());
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
                             kernels::PackedMatrix& view) {
  view = {.dtype = tensor.dtype, .n = rows, .k = tensor.dims[0], .data = nullptr};
  Add({&tensor, first, rows, false, &view, 0});
}

void TensorPacker::AddTransposed(const gguf::Tensor& tensor, std::uint64_t first,
                                 std::uint64_t rows, kernels::PackedMatrix& view) {
  view = {.dtype = DType::kF32, .n = tensor.dims[0], .k = rows, .data = nullptr};
  Add({&tensor, first, rows, true, &view, 0});
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
  for (const PendingVector& pending : vectors_) {
    float* const out = vectors.data() + pending.offset;
    const gguf::Tensor& tensor = *pending.tensor;
    const std::uint64_t columns = tensor.dims[0];
    row.resize(columns);
    kernels::DequantizeRow(
        tensor.dtype,
        tensor.data.data() + pending.first / columns * *RowBytes(tensor.dtype, columns), columns,
        row.data());
    std::copy_n(row.data() + pending.first % columns, pending.size, out);
    *pending.view = out;
  }
}

void TensorPacker::PackMatrix(const PendingMatrix& pending, ThreadPool& pool,
                              std::byte* packed) const {
  kernels::PackedMatrix& view = *pending.view;
  view.data = packed;
  std::vector<float> transposed;
  const std::byte* rows = nullptr;
  if (pending.is_transposed) {
    transposed = Transposed(*pending.tensor, pending.first, pending.rows);
    rows = reinterpret_cast<const std::byte*>(transposed.data());
  } else {
    rows = pending.tensor->data.data() + pending.first * *RowBytes(view.dtype, view.k);
  }
  const std::size_t panels = view.panels();
  pool.ParallelFor(
      (panels + kPanelsPerItem - 1) / kPanelsPerItem, [&](std::size_t item, std::size_t) {
        kernels::PackPanels({.dtype = view.dtype,
                             .n = view.n,
                             .k = view.k,
                             .rows = rows,
                             .packed = packed,
                             .panel_begin = item * kPanelsPerItem,
                             .panel_end = std::min(panels, (item + 1) * kPanelsPerItem)});
      });
}

}  // namespace ashlar::model
