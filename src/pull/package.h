// Wheels of a Python package index, and the model file inside one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pull/download.h"
#include "pull/http_client.h"
#include "pull/source.h"

namespace ashlar::pull {

struct Wheel {
  std::string name;  // its file name
  RemoteFile file;
};

// The wheel of a project's version, by the index's JSON (PEP 691). `index` is the simple index's
// URL. Errors: those of HttpClient; kNotFound listing the versions there are; kCorrupt.
Result<Wheel> FindWheel(HttpClient& client, std::string_view index, const PackageSource& source);

// The same from the index's answer, which came from `page_url`.
Result<Wheel> ChooseWheel(std::string_view text, std::string_view page_url,
                          const PackageSource& source);

// A file inside a wheel.
struct Member {
  std::string path;
  std::uint64_t bytes = 0;
};
// The named one, or the only GGUF file. Errors: kNotFound and kInvalidArgument listing what there
// is; kCorrupt when the wheel is no archive.
Result<Member> FindMember(const std::filesystem::path& wheel, std::string_view member);

// Writes a member to `to`, which stands for all of it or is not there. Errors: kCorrupt, kIo,
// kNotFound.
Status Extract(const std::filesystem::path& wheel, const Member& member,
               const std::filesystem::path& to, const OnProgress& on_progress);

}  // namespace ashlar::pull
