// A file's bytes, read-only, mapped into memory: nothing is read until it is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace ashlar {

// Move-only owner of the mapping. The file must not be truncated while mapped (reads beyond the new
// end would fault): model files are treated as immutable.
class MappedFile {
 public:
  // Errors: kNotFound, kIo (with the system's reason; also for a folder or special file). An empty
  // file maps to an empty span.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Tells the system that [offset, offset + size) will be read soon / will not be needed again.
  void WillNeed(std::size_t offset, std::size_t size) const;
  void DontNeed(std::size_t offset, std::size_t size) const;
  // How the file will be read from now on: scattered reads fetch no more than they touch; in order
  // (as at first), the system reads ahead.
  enum class Reading : std::uint8_t { kInOrder, kScattered };
  void Expect(Reading reading) const;

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size);
  void Close();

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ashlar
