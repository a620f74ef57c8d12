#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ashlar {
namespace {

Error SystemError(const std::string& path, const char* action) {
  const int code = errno;
  return MakeError(code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
                   "cannot {} '{}': {}", action, path, std::strerror(code));
}

void Advise(const std::byte* data, std::size_t file_size, std::size_t offset, std::size_t size,
            int advice) {
  if (offset >= file_size) return;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t end = offset + std::min(size, file_size - offset);
  // Giving pages up must not touch a neighbour's bytes: whole pages only. Asking early may round
  // out.
  const bool inward = advice == MADV_DONTNEED;
  const std::size_t begin = inward ? (offset + page - 1) / page * page : offset / page * page;
  const std::size_t stop = inward && end != file_size ? end / page * page : end;
  if (begin >= stop) return;
  // Only advice: a refusal costs time, not correctness.
  (void)madvise(const_cast<std::byte*>(data) + begin, stop - begin, advice);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // Non-blocking, so that opening a pipe does not wait for its writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(path, "open");
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    Error error = SystemError(path, "stat");
    close(fd);
    return error;
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return MakeError(ErrorCode::kIo, "cannot open '{}': it is not a regular file", path);
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      Error error = SystemError(path, "map");
      close(fd);
      return error;
    }
  }
  close(fd);
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(std::string path, const std::byte* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Close();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { Close(); }

void MappedFile::Close() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

void MappedFile::WillNeed(std::size_t offset, std::size_t size) const {
  Advise(data_, size_, offset, size, MADV_WILLNEED);
}

void MappedFile::Expect(Reading reading) const {
  Advise(data_, size_, 0, size_, reading == Reading::kScattered ? MADV_RANDOM : MADV_NORMAL);
}

void MappedFile::DontNeed(std::size_t offset, std::size_t size) const {
  Advise(data_, size_, offset, size, MADV_DONTNEED);
}

}  // namespace ashlar
