// Builds safetensors files for tests: obviously right, and able to lie on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace ashlar::hf {

class SafetensorsWriter {
 public:
  // `shape`: rows first. Precondition: `data` has its bytes.
  SafetensorsWriter& Add(const std::string& name, const std::string& dtype,
                         std::vector<std::uint64_t> shape, std::span<const std::byte> data);
  SafetensorsWriter& AddFloats(const std::string& name, std::vector<std::uint64_t> shape,
                               std::span<const float> values) {
    return Add(name, "F32", std::move(shape), std::as_bytes(values));
  }
  // The header as it will be written, to be changed.
  nlohmann::ordered_json& header() { return header_; }

  std::vector<std::byte> Build() const { return BuildWith(header_.dump()); }
  // With any header.
  std::vector<std::byte> BuildWith(const std::string& header) const;

 private:
  nlohmann::ordered_json header_ = nlohmann::ordered_json::object();
  std::vector<std::byte> data_;
};

// Errors: kIo.
Status WriteText(const std::string& path, std::string_view text);

}  // namespace ashlar::hf
