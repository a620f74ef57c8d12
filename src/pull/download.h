// One file from a server to a path, so that the name never stands for half a file:
//
//   NAME.part      what has come; a next call goes on behind it
//   NAME.part.tag  the server's mark of the version it belongs to
//   NAME           all of it, of the right size and digest
//
// A part is continued only where the result can be right: the digest is known, or the server says
// that the file is still the same (If-Range).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "pull/http_client.h"

namespace ashlar::pull {

struct RemoteFile {
  std::string url;
  std::string bearer;                  // a token for its host; empty: none
  std::optional<std::uint64_t> bytes;  // known before
  std::string sha256;                  // 64 lower-case hexadecimal digits; empty: not known
};

struct Progress {
  std::uint64_t bytes = 0;                   // there so far, those of earlier calls included
  std::optional<std::uint64_t> whole_bytes;  // of the file, once known
};
using OnProgress = std::function<void(const Progress& progress)>;

// Waits between attempts; a test has its own.
using Wait = std::function<void(int seconds)>;
void WaitSeconds(int seconds);

// Replaces `path`. Goes on by itself after a transfer that was cut, as long as bytes keep coming.
// Errors: kUnavailable and kNotFound of the client; kCorrupt for a wrong size or digest (the part
// is then removed); kResourceExhausted when the disk is too small, with the numbers, or another
// process fetches this file; kIo.
Status Download(HttpClient& client, const RemoteFile& file, const std::filesystem::path& path,
                const OnProgress& on_progress, const Wait& wait = WaitSeconds);

}  // namespace ashlar::pull
