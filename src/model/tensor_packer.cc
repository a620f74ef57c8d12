#include "model/tensor_packer.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/dequantize.h"

namespace ashlar::model {
namespace {

constexpr std::size_t kPanelsPerItem = 4;
constexpr std::size_t kMadePanels = 16;  // of rows that are made: to make few reads as much as many
// Of the file, packed before its pages are given back: while weights are loaded, so many bytes are
// in memory twice.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

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
  kernels::PackedMatrix& view = linear.w;
  view = {.dtype = tensor.dtype, .n = rows, .k = tensor.dims[0]};
  linear.order = tensor.column_order;
  // What has to be made of other bytes is made once.
  if (access_ == WeightAccess::kMmap && tensor.maker == nullptr) {
    view.rows = tensor.data.data() + first * tensor.row_bytes();
    mapped_bytes_ += rows * tensor.row_bytes();
    mapped_panel_bytes_ =
        std::max(mapped_panel_bytes_, kernels::PackedPanelBytes(view.dtype, view.k));
    return;
  }
  Add({&tensor, first, rows, false, &view, 0});
}

void TensorPacker::AddTransposed(const gguf::Tensor& tensor, std::uint64_t first,
                                 std::uint64_t rows, Linear& linear) {
  ASHLAR_CHECK(tensor.column_order.empty(), "{}", tensor.name);
  linear.w = {.dtype = DType::kF32, .n = tensor.dims[0], .k = rows};
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
    if (progress) {
      progress(i + 1 == matrices_.size() ? packed_bytes_ : matrices_[i + 1].offset, packed_bytes_);
    }
  }
  if (access_ == WeightAccess::kCopy) {
    PackVectors(vectors);
    // Reading maps neighbouring pages as well, of what had been given back.
    file_.DropPages();
    return;
  }
  // Vectors lie between matrices, which nobody has asked for.
  file_.Expect(MappedFile::Reading::kScattered);
  PackVectors(vectors);
  file_.Expect(MappedFile::Reading::kInOrder);
}

// Of a matrix's rows, those that exist.
void TensorPacker::DropRows(const PendingMatrix& pending, std::size_t begin,
                            std::size_t end) const {
  const gguf::Tensor& tensor = *pending.tensor;
  if (tensor.maker != nullptr) return file_.DropPages(tensor.maker->source());
  const std::size_t row_bytes = tensor.row_bytes();
  const std::size_t rows = std::min<std::size_t>(end, pending.rows) - begin;
  file_.DropPages(tensor.data.subspan((pending.first + begin) * row_bytes, rows * row_bytes));
}

void TensorPacker::PackVectors(std::vector<float>& vectors) const {
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
  if (pending.is_transposed) {
    const std::vector<float> rows = Transposed(tensor, pending.first, pending.rows);
    DropRows(pending, 0, pending.rows);
    PackRows(view, reinterpret_cast<const std::byte*>(rows.data()), {0, view.panels()}, pool);
    return;
  }
  if (tensor.maker != nullptr) {
    const std::size_t items = (view.panels() + kMadePanels - 1) / kMadePanels;
    pool.ParallelFor(items, [&](std::size_t item, std::size_t) {
      const std::size_t first = item * kMadePanels;
      PackMade(pending, {first, std::min(view.panels(), first + kMadePanels)}, packed);
    });
    DropRows(pending, 0, pending.rows);
    return;
  }
  const std::size_t item_bytes = kPanelsPerItem * kernels::kPanelRows * tensor.row_bytes();
  const std::size_t piece = kPanelsPerItem * std::max<std::size_t>(1, kPieceBytes / item_bytes);
  for (std::size_t begin = 0; begin < view.panels(); begin += piece) {
    const std::size_t end = std::min(view.panels(), begin + piece);
    PackRows(view, tensor.data.data() + pending.first * tensor.row_bytes(), {begin, end}, pool);
    // The last piece's last page is this one's first.
    const std::size_t from = begin > 0 ? begin - kPanelsPerItem : 0;
    DropRows(pending, from * kernels::kPanelRows, end * kernels::kPanelRows);
  }
}

// Panels of a matrix whose rows are made, as a matrix of their own.
void TensorPacker::PackMade(const PendingMatrix& pending, const Panels& panels, std::byte* packed) {
  const kernels::PackedMatrix& view = *pending.view;
  const std::size_t first = panels.begin * kernels::kPanelRows;
  const std::size_t count = std::min(view.n, panels.end * kernels::kPanelRows) - first;
  AlignedArray<std::byte> rows(count * pending.tensor->row_bytes());
  pending.tensor->ReadRows(pending.first + first, count, rows.data());
  kernels::PackPanels(
      {.dtype = view.dtype,
       .n = count,
       .k = view.k,
       .rows = rows.data(),
       .packed = packed + panels.begin * kernels::PackedPanelBytes(view.dtype, view.k),
       .panel_begin = 0,
       .panel_end = panels.end - panels.begin});
}

void TensorPacker::PackRows(const kernels::PackedMatrix& view, const std::byte* rows,
                            const Panels& panels, ThreadPool& pool) {
  const std::size_t items = (panels.end - panels.begin + kPanelsPerItem - 1) / kPanelsPerItem;
  pool.ParallelFor(items, [&](std::size_t item, std::size_t) {
    const std::size_t first = panels.begin + item * kPanelsPerItem;
    // The view's bytes are the packer's own until it is done.
    kernels::PackPanels({.dtype = view.dtype,
                         .n = view.n,
                         .k = view.k,
                         .rows = rows,
                         .packed = const_cast<std::byte*>(view.data),
                         .panel_begin = first,
                         .panel_end = std::min(panels.end, first + kPanelsPerItem)});
  });
}

}  // namespace ashlar::model
