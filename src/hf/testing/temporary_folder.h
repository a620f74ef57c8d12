// A folder of a test's own, gone with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/check.h"

namespace ashlar::hf {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(::testing::TempDir() + "/ashlar_hf_XXXXXX") {
    ASHLAR_CHECK(mkdtemp(path_.data()) != nullptr, "cannot make {}", path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ashlar::hf
