// From a source to a model file on this machine.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pull/download.h"
#include "pull/hub.h"
#include "pull/source.h"

namespace ashlar::pull {

struct PullOptions {
  std::filesystem::path folder;  // files go below it, by where they come from
  Hub hub;
  std::string package_index;  // URL of a simple index; empty: none is known
  std::string sha256;         // the file must have it; empty: what the source says, if it does
  bool again = false;         // fetch what is there already
};

struct PulledFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  bool was_there = false;
};

// Told of each file in turn.
using OnFile = std::function<void(std::string_view name, const Progress& progress)>;

// The model's file, or all parts of a split one, the first first. A file that is there and has the
// right size is not fetched again. Errors: those of Download and of the source's kind.
Result<std::vector<PulledFile>> Pull(const Source& source, const PullOptions& options,
                                     const OnFile& on_file);

}  // namespace ashlar::pull
