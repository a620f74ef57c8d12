// Files of a repository on a Hugging Face hub.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pull/http_client.h"
#include "pull/source.h"

namespace ashlar::pull {

struct HubFile {
  std::string path;  // in the repository
  std::uint64_t bytes = 0;
  std::string sha256;  // empty: the hub does not say (small files)
};

struct Hub {
  std::string endpoint;  // https://HOST
  std::string token;     // empty: public repositories only
};

// The files at a revision; of very large repositories the first thousand.
// Errors: those of HttpClient; kCorrupt for an answer of another form.
Result<std::vector<HubFile>> ListFiles(HttpClient& client, const Hub& hub, const HubSource& source);

// A listing as the hub sends it, JSON. Errors: kCorrupt.
Result<std::vector<HubFile>> ParseListing(std::string_view text);

// Which of them the source means: the named file, or the only GGUF model; of a model split into
// parts (-00001-of-00003.gguf) all, in order. Where there is no GGUF model, or config.json is
// named, a folder of safetensors: config.json first, the files beside it that a model has, its
// weights. Errors: kNotFound or kInvalidArgument, listing what there is.
Result<std::vector<HubFile>> ChooseFiles(const std::vector<HubFile>& files,
                                         const HubSource& source);

// Where a file of a repository is read.
std::string UrlOf(const Hub& hub, const HubSource& source, std::string_view path);

}  // namespace ashlar::pull
