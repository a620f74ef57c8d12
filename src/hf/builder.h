// A model being put into GGUF's words.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gguf/model_file.h"

namespace ashlar::hf {

class Builder {
 public:
  explicit Builder(std::string architecture) : architecture_(std::move(architecture)) {}

  const std::string& architecture() const { return architecture_; }

  // A view that lives as long as the model.
  std::string_view Keep(std::string text) { return contents_.texts.emplace_back(std::move(text)); }
  void Set(std::string key, gguf::Value value) {
    contents_.metadata.insert_or_assign(Keep(std::move(key)), std::move(value));
  }
  // "<architecture>.<key>"
  void SetOwn(std::string_view key, gguf::Value value) {
    Set(architecture_ + "." + std::string(key), std::move(value));
  }
  // What SetOwn set, or 0 when it is missing or no count.
  std::uint64_t OwnCount(std::string_view key) const {
    const auto found = contents_.metadata.find(architecture_ + "." + std::string(key));
    if (found == contents_.metadata.end()) return 0;
    const auto* const count = std::get_if<std::uint64_t>(&found->second);
    return count == nullptr ? 0 : *count;
  }
  void SetText(std::string key, std::string_view text) {
    Set(std::move(key), Keep(std::string(text)));
  }

  // The caller sets dims and where the data are.
  gguf::Tensor& AddTensor(std::string name, DType dtype) {
    gguf::Tensor& tensor = contents_.tensors.emplace_back();
    tensor.name = Keep(std::move(name));
    tensor.dtype = dtype;
    return tensor;
  }
  // A vector that no file holds.
  void AddFloats(std::string name, std::vector<float> values) {
    gguf::Tensor& tensor = AddTensor(std::move(name), DType::kF32);
    const std::vector<float>& kept = contents_.floats.emplace_back(std::move(values));
    tensor.dims = {kept.size()};
    tensor.data = std::as_bytes(std::span(kept));
  }
  const gguf::RowMaker* Keep(std::unique_ptr<const gguf::RowMaker> maker) {
    return contents_.makers.emplace_back(std::move(maker)).get();
  }
  // Equal orders are kept once, so that products of one input share what they gather.
  std::span<const std::uint32_t> KeepOrder(std::vector<std::uint32_t> order) {
    for (const auto& kept : contents_.orders) {
      if (kept == order) return kept;
    }
    return contents_.orders.emplace_back(std::move(order));
  }

  gguf::ModelFile::Contents& contents() { return contents_; }
  const gguf::ModelFile::Contents& contents() const { return contents_; }

 private:
  std::string architecture_;
  gguf::ModelFile::Contents contents_;
};

}  // namespace ashlar::hf
