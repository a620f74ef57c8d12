// Counts the parser's recursion.
#pragma once

#include <utility>

#include "text/jinja/parser.h"

namespace ashlar::text::jinja {

class Parser::Level {
 public:
  explicit Level(int* depth) : depth_(depth) { ++*depth_; }
  Level(Level&& other) noexcept : depth_(std::exchange(other.depth_, nullptr)) {}
  Level& operator=(Level&&) = delete;
  ~Level() {
    if (depth_ != nullptr) {
      --*depth_;
    }
  }

 private:
  int* depth_;
};

}  // namespace ashlar::text::jinja
