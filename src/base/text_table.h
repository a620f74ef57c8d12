// Rows of cells as lines of text for a terminal: columns aligned by spaces, the first to the left,
// the others to the right, two spaces between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

// Characters as people count them: code points of UTF-8.
std::size_t TextWidth(std::string_view text);

class TextTable {
 public:
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Every line begins with `indent` and ends without spaces.
  std::string Text(std::string_view indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ashlar
