// Random tensors of a tiny model, drawn one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "gguf/testing/gguf_writer.h"

namespace ashlar::model {

class TinyTensors {
 public:
  // Writes to `writer`, which must outlive this.
  TinyTensors(gguf::GgufWriter& writer, DType dtype, std::uint64_t seed)
      : writer_(writer), dtype_(dtype), seed_(seed) {}

  struct Shape {
    std::uint64_t rows = 0;
    std::uint64_t columns = 0;
    std::uint64_t count = 0;  // of matrices of this shape, stacked; 0: a plain matrix
    double gain = 1.0;        // standard deviation, times sqrt(columns)
  };
  // In the model's dtype.
  void Matrix(const std::string& name, const Shape& shape) { Add(name, shape, dtype_); }
  // In F32, as files keep routers and positions whatever the rest is.
  void FloatMatrix(const std::string& name, const Shape& shape) { Add(name, shape, DType::kF32); }

  struct Spread {
    float around = 0.0f;
    float deviation = 0.2f;
  };
  void Vector(const std::string& name, std::uint64_t size, const Spread& spread);
  // [rows][size], as the biases of stacked matrices are.
  void Vectors(const std::string& name, std::uint64_t rows, std::uint64_t size,
               const Spread& spread);

 private:
  void Add(const std::string& name, const Shape& shape, DType dtype);
  std::vector<float> DrawFloats(std::uint64_t size, const Spread& spread);
  std::vector<std::byte> DrawMatrix(DType dtype, std::uint64_t elements, double deviation);
  void FillBlock(DType dtype, double deviation, std::byte* block);
  std::uint64_t Bits();
  float Normal();

  gguf::GgufWriter& writer_;
  DType dtype_;
  std::uint64_t seed_;
  std::uint64_t next_ = 0;  // draws so far
};

}  // namespace ashlar::model
