#include "gguf/testing/walk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "gguf/format.h"

namespace ashlar::gguf {
namespace {

class Walker {
 public:
  explicit Walker(std::span<const ModelFile::Part> parts) : parts_(parts) {}

  void Metadata(const ModelFile& file) {
    for (const auto& [key, value] : file.metadata()) {
      Text(key);
      ASHLAR_CHECK(file.Find(key) == &value, "key '{}' is not found", key);
      Add(value.index());
      std::visit([&](const auto& held) { Held(held); }, value);
      Conversions(file, key);
    }
  }

  void Tensors(const ModelFile& file) {
    std::vector<std::span<const std::byte>> places;
    for (const Tensor& tensor : file.tensors()) {
      Text(tensor.name);
      ASHLAR_CHECK(file.FindTensor(tensor.name) == &tensor, "'{}' is not found", tensor.name);
      const auto required = file.RequireTensor(tensor.name, tensor.dims);
      ASHLAR_CHECK(required.ok() && *required == &tensor, "'{}' has other dims", tensor.name);
      Add(static_cast<std::uint64_t>(tensor.dtype));
      for (const std::uint64_t dim : tensor.dims) Add(dim);
      const auto row_bytes = RowBytes(tensor.dtype, tensor.dims[0]);
      ASHLAR_CHECK(row_bytes && tensor.data.size() == *row_bytes * tensor.rows(),
                   "'{}' has {} bytes", tensor.name, tensor.data.size());
      Bytes(tensor.data);
      places.push_back(tensor.data);
    }
    std::ranges::sort(places, std::less<const std::byte*>(), [](auto data) { return data.data(); });
    for (std::size_t i = 1; i < places.size(); ++i) {
      ASHLAR_CHECK(places[i - 1].data() + places[i - 1].size() <= places[i].data(), "overlap");
    }
  }

  std::uint64_t digest() const { return digest_; }

 private:
  void Add(std::uint64_t value) { digest_ = MixBits(digest_ ^ value); }

  void Bytes(std::span<const std::byte> bytes) {
    const bool is_inside = std::ranges::any_of(parts_, [&](const ModelFile::Part& part) {
      const std::less_equal<const std::byte*> not_after;
      return not_after(part.bytes.data(), bytes.data()) &&
             not_after(bytes.data() + bytes.size(), part.bytes.data() + part.bytes.size());
    });
    ASHLAR_CHECK(is_inside, "{} bytes outside the file", bytes.size());
    Add(bytes.size());
    for (const std::byte byte : bytes) Add(static_cast<std::uint64_t>(byte));
  }
  void Text(std::string_view text) { Bytes(std::as_bytes(std::span(text))); }

  void Held(std::uint64_t value) { Add(value); }
  void Held(std::int64_t value) { Add(static_cast<std::uint64_t>(value)); }
  void Held(double value) { Add(std::bit_cast<std::uint64_t>(value)); }
  void Held(bool value) { Add(value ? 1 : 0); }
  void Held(std::string_view value) { Text(value); }
  void Held(const Array& array) {
    Add(array.size());
    Add(array.elements.index());
    std::visit(
        [&](const auto& elements) {
          for (const auto& element : elements) Held(element);
        },
        array.elements);
  }

  // Exactly the conversions that the value's type allows succeed; the others say why not.
  void Conversions(const ModelFile& file, std::string_view key) {
    Outcome(file.Unsigned(key));
    Outcome(file.Number(key));
    Outcome(file.Bool(key));
    Outcome(file.String(key));
    Outcome(file.Strings(key));
    Outcome(file.Integers(key));
    Outcome(file.Numbers(key));
  }
  template <typename T>
  void Outcome(const Result<T>& result) {
    Add(result.ok() ? 1 : 0);
    if (!result.ok()) ASHLAR_CHECK(!result.error().message.empty(), "an error without a message");
  }

  std::span<const ModelFile::Part> parts_;
  std::uint64_t digest_ = 0;
};

}  // namespace

std::uint64_t Walk(const ModelFile& file, std::span<const ModelFile::Part> parts) {
  ASHLAR_CHECK(file.version() >= kMinVersion && file.version() <= kMaxVersion, "version {}",
               file.version());
  ASHLAR_CHECK(file.paths().size() == parts.size(), "{} paths", file.paths().size());
  Walker walker(parts);
  walker.Metadata(file);
  walker.Tensors(file);
  return walker.digest();
}

std::uint64_t Walk(const ModelFile& file, std::span<const std::byte> bytes) {
  const ModelFile::Part part{bytes, file.paths()[0]};
  return Walk(file, {&part, 1});
}

}  // namespace ashlar::gguf
