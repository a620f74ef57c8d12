#include "hf/testing/safetensors_writer.h"

#include <cstring>
#include <utility>

#include "gguf/testing/gguf_writer.h"

namespace ashlar::hf {

SafetensorsWriter& SafetensorsWriter::Add(const std::string& name, const std::string& dtype,
                                          std::vector<std::uint64_t> shape,
                                          std::span<const std::byte> data) {
  header_[name] = {{"dtype", dtype},
                   {"shape", std::move(shape)},
                   {"data_offsets", {data_.size(), data_.size() + data.size()}}};
  data_.insert(data_.end(), data.begin(), data.end());
  return *this;
}

std::vector<std::byte> SafetensorsWriter::BuildWith(const std::string& header) const {
  // Padded as the format's own library does, so that data begin at a multiple of 8.
  std::string padded = header;
  padded.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = padded.size();
  std::vector<std::byte> bytes(sizeof length + padded.size());
  std::memcpy(bytes.data(), &length, sizeof length);
  std::memcpy(bytes.data() + sizeof length, padded.data(), padded.size());
  bytes.insert(bytes.end(), data_.begin(), data_.end());
  return bytes;
}

Status WriteText(const std::string& path, std::string_view text) {
  return gguf::WriteBytes(path, std::as_bytes(std::span(text)));
}

}  // namespace ashlar::hf
