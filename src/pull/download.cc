#include "pull/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/byte_size.h"
#include "base/log.h"
#include "pull/file_digest.h"

namespace ashlar::pull {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 5;  // without a new byte between them

Error FileError(const char* what, const fs::path& path) {
  return MakeError(ErrorCode::kIo, "cannot {} {}: {}", what, path.string(), std::strerror(errno));
}

// NAME.part, locked while it is here: two processes that fetch one file would write into it both.
class PartFile {
 public:
  static Result<PartFile> Open(const fs::path& path) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return FileError("write", path);
    PartFile part(path, file);
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      return MakeError(ErrorCode::kResourceExhausted, "another process is fetching {}",
                       path.string());
    }
    struct stat status{};
    if (fstat(file, &status) != 0) return FileError("read", path);
    part.bytes_ = static_cast<std::uint64_t>(status.st_size);
    if (lseek(file, 0, SEEK_END) < 0) return FileError("write", path);
    return part;
  }
  PartFile(PartFile&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        bytes_(other.bytes_) {}
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile() {
    if (file_ >= 0) close(file_);
  }

  std::uint64_t bytes() const { return bytes_; }

  Status Append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = write(file_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError("write", path_);
      bytes_ += static_cast<std::uint64_t>(count);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }
  Status Empty() {
    if (ftruncate(file_, 0) != 0 || lseek(file_, 0, SEEK_SET) < 0) return FileError("write", path_);
    bytes_ = 0;
    return {};
  }
  Status Sync() { return fsync(file_) == 0 ? Status() : FileError("write", path_); }

 private:
  PartFile(fs::path path, int file) : path_(std::move(path)), file_(file) {}

  fs::path path_;
  int file_;
  std::uint64_t bytes_ = 0;
};

class Fetch {
 public:
  Fetch(HttpClient& client, const RemoteFile& file, const fs::path& path, PartFile part,
        const OnProgress& on_progress)
      : client_(client),
        file_(file),
        path_(path),
        part_(std::move(part)),
        tag_path_(path.string() + ".part.tag"),
        on_progress_(on_progress),
        whole_bytes_(file.bytes) {}

  // Until all is there. False: cut, and worth another try.
  Result<bool> Attempt() {
    ASHLAR_TRY(ForgetWhatCannotBeContinued());
    if (part_.bytes() > 0 && whole_bytes_ == part_.bytes()) return true;
    HttpRequest request{.url = file_.url, .bearer = file_.bearer};
    if (part_.bytes() > 0 && !tag_.empty()) request.headers.push_back("If-Range: " + tag_);
    Status written;
    const std::uint64_t from = part_.bytes();
    bool is_first = true;
    ASHLAR_ASSIGN(const HttpAnswer answer,
                  client_.Stream(request, from, [&](const HttpAnswer& head, auto bytes) {
                    if (std::exchange(is_first, false)) written = Begin(head);
                    if (written.ok()) written = Take(bytes);
                    return written.ok();
                  }));
    ASHLAR_TRY(written);
    if (answer.status == 416) {  // our part is no beginning of what is there now
      ASHLAR_TRY(part_.Empty());
      return false;
    }
    const bool may_pass = answer.status == 429 || answer.status >= 500;
    if (answer.status != 200 && answer.status != 206 && !may_pass) {
      return AnswerError({.url = file_.url, .bearer = {}}, answer);
    }
    failure_ = AnswerError({.url = file_.url, .bearer = {}}, answer).message;
    return !may_pass && answer.is_complete && part_.bytes() >= whole_bytes_.value_or(0);
  }

  // Checks the part and gives it its name.
  Status Finish() {
    if (whole_bytes_ && part_.bytes() != *whole_bytes_) {
      return Discard(fmt::format("has {} bytes, and should have {}", part_.bytes(), *whole_bytes_));
    }
    ASHLAR_TRY(part_.Sync());
    const fs::path part_path(path_.string() + ".part");
    if (!file_.sha256.empty()) {
      ASHLAR_ASSIGN(const std::string digest, Sha256Of(part_path));
      if (digest != file_.sha256) {
        return Discard(fmt::format("has the SHA-256 {}, and should have {}", digest, file_.sha256));
      }
    }
    std::error_code error;
    fs::rename(part_path, path_, error);
    if (error) {
      return MakeError(ErrorCode::kIo, "cannot name {}: {}", path_.string(), error.message());
    }
    fs::remove(tag_path_, error);
    return {};
  }

  std::uint64_t bytes() const { return part_.bytes(); }
  const std::string& failure() const { return failure_; }

 private:
  Status ForgetWhatCannotBeContinued() {
    if (part_.bytes() == 0) return {};
    if (tag_.empty()) std::getline(std::ifstream(tag_path_), tag_);
    const bool is_too_long = whole_bytes_ && part_.bytes() > *whole_bytes_;
    if (is_too_long || (tag_.empty() && file_.sha256.empty())) return part_.Empty();
    return {};
  }

  // Before the first byte of an answer is kept.
  Status Begin(const HttpAnswer& head) {
    if (head.status == 200) ASHLAR_TRY(part_.Empty());  // all of it, whatever was asked for
    if (file_.bytes && head.whole_bytes && *head.whole_bytes != *file_.bytes) {
      return MakeError(ErrorCode::kCorrupt, "{} has {} bytes, and should have {}", file_.url,
                       *head.whole_bytes, *file_.bytes);
    }
    if (head.whole_bytes) whole_bytes_ = head.whole_bytes;
    tag_ = head.validator;
    std::ofstream(tag_path_) << tag_ << '\n';
    return CheckRoom();
  }

  Status CheckRoom() const {
    if (!whole_bytes_) return {};
    std::error_code error;
    const fs::space_info space = fs::space(path_.parent_path(), error);
    const std::uint64_t missing = *whole_bytes_ - std::min(*whole_bytes_, part_.bytes());
    if (error || space.available >= missing) return {};
    return MakeError(ErrorCode::kResourceExhausted, "{} has {} free, and {} more are needed for {}",
                     path_.parent_path().string(), FormatByteSize(space.available),
                     FormatByteSize(missing), path_.filename().string());
  }

  Status Take(std::span<const std::byte> bytes) {
    if (whole_bytes_ && part_.bytes() + bytes.size() > *whole_bytes_) {
      return Discard(fmt::format("is longer than {} bytes", *whole_bytes_));
    }
    ASHLAR_TRY(part_.Append(bytes));
    on_progress_({.bytes = part_.bytes(), .whole_bytes = whole_bytes_});
    return {};
  }

  Error Discard(const std::string& why) {
    std::error_code error;
    fs::remove(path_.string() + ".part", error);
    fs::remove(tag_path_, error);
    return MakeError(ErrorCode::kCorrupt, "what {} sent {}; it was removed", file_.url, why);
  }

  HttpClient& client_;
  const RemoteFile& file_;
  const fs::path& path_;
  PartFile part_;
  const fs::path tag_path_;
  const OnProgress& on_progress_;
  std::optional<std::uint64_t> whole_bytes_;
  std::string tag_;
  std::string failure_;
};

}  // namespace

void WaitSeconds(int seconds) { std::this_thread::sleep_for(std::chrono::seconds(seconds)); }

Status Download(HttpClient& client, const RemoteFile& file, const fs::path& path,
                const OnProgress& on_progress, const Wait& wait) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    return MakeError(ErrorCode::kIo, "cannot make the folder {}: {}", path.parent_path().string(),
                     error.message());
  }
  ASHLAR_ASSIGN(PartFile part, PartFile::Open(path.string() + ".part"));
  Fetch fetch(client, file, path, std::move(part), on_progress);
  for (int attempt = 0, seconds = 1; attempt < kAttempts; ++attempt, seconds *= 2) {
    const std::uint64_t before = fetch.bytes();
    const Result<bool> is_done = fetch.Attempt();
    const bool is_cut_off = !is_done.ok() && is_done.error().code == ErrorCode::kUnavailable;
    if (!is_done.ok() && (!is_cut_off || before == 0)) return is_done.error();
    if (is_done.ok() && *is_done) return fetch.Finish();
    if (fetch.bytes() > before) attempt = 0, seconds = 1;
    ASHLAR_LOG_DEBUG("{}: {}; trying again in {} s", file.url,
                     is_done.ok() ? fetch.failure() : is_done.error().message, seconds);
    wait(seconds);
  }
  return MakeError(
      ErrorCode::kUnavailable,
      "{}: the transfer ended early again and again, last with: {}. What came is kept: "
      "the same command goes on from byte {}",
      file.url, fetch.failure(), fetch.bytes());
}

}  // namespace ashlar::pull
