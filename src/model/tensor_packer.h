// Takes the tensors of a model file one by one, checks their shapes and, when all are known, packs
// matrices for the kernels and converts vectors to f32. Finding comes before copying: sizes are
// known then, and errors come before the long part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_array.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/model_file.h"
#include "kernels/packed_matrix.h"
#include "model/linear.h"
#include "model/weight_access.h"

namespace ashlar::model {

class TensorPacker {
 public:
  TensorPacker(const gguf::ModelFile& file, WeightAccess access) : file_(file), access_(access) {}

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }

  // The tensor of that name and these dims (row length first), which counts as used.
  Result<const gguf::Tensor*> Take(const std::string& name,
                                   std::initializer_list<std::uint64_t> dims);

  // Rows [first, first + rows) of a tensor that was taken, as a matrix of its own: packed, or with
  // WeightAccess::kMmap, where the file has them as they are, left there. `linear.w` is filled in
  // by Pack and must stay where it is until then.
  void AddMatrix(const gguf::Tensor& tensor, std::uint64_t first, std::uint64_t rows,
                 Linear& linear);
  // The same rows transposed, in f32: a matrix of [row length] rows. Always packed. Precondition:
  // the tensor's columns stand in order.
  void AddTransposed(const gguf::Tensor& tensor, std::uint64_t first, std::uint64_t rows,
                     Linear& linear);
  // Elements [first, first + size) of a tensor that was taken, all in one row of it. Vectors that
  // are added one after the other lie one after the other.
  void AddVector(const gguf::Tensor& tensor, std::uint64_t first, std::uint64_t size,
                 const float*& view);

  // Error: kUnsupported, naming a tensor that nobody has taken.
  Status CheckAllTaken(std::string_view architecture) const;

  // That Pack will fill: of matrices and vectors.
  std::uint64_t bytes() const { return packed_bytes_ + vector_floats_ * sizeof(float); }
  // Of the matrices that stay in the file: all of them; and of a panel, the largest when packed.
  std::uint64_t mapped_bytes() const { return mapped_bytes_; }
  std::size_t mapped_panel_bytes() const { return mapped_panel_bytes_; }

  void Pack(ThreadPool& pool, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
            AlignedArray<std::byte>& packed, std::vector<float>& vectors);

 private:
  struct PendingMatrix {
    const gguf::Tensor* tensor;
    std::uint64_t first;
    std::uint64_t rows;
    bool is_transposed;
    kernels::PackedMatrix* view;
    std::size_t offset;  // in `packed`
  };
  struct PendingVector {
    const gguf::Tensor* tensor;
    std::uint64_t first;
    std::uint64_t size;
    const float** view;
    std::size_t offset;  // in `vectors`
  };

  void Add(const PendingMatrix& matrix);
  struct Panels {
    std::size_t begin;
    std::size_t end;
  };

  void PackMatrix(const PendingMatrix& pending, ThreadPool& pool, std::byte* packed) const;
  static void PackMade(const PendingMatrix& pending, const Panels& panels, std::byte* packed);
  static void PackRows(const kernels::PackedMatrix& view, const std::byte* rows,
                       const Panels& panels, ThreadPool& pool);
  void DropRows(const PendingMatrix& pending, std::size_t begin, std::size_t end) const;
  void PackVectors(std::vector<float>& vectors) const;

  const gguf::ModelFile& file_;
  const WeightAccess access_;
  std::set<std::string_view> taken_;
  std::vector<PendingMatrix> matrices_;
  std::vector<PendingVector> vectors_;
  std::size_t packed_bytes_ = 0;
  std::size_t vector_floats_ = 0;
  std::uint64_t mapped_bytes_ = 0;
  std::size_t mapped_panel_bytes_ = 0;
};

}  // namespace ashlar::model
