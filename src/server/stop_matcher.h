// Finds stop strings in text that arrives in pieces, and lets nothing out that might yet turn out
// to be the beginning of one.
//
// The text ends where a stop string first becomes complete, byte by byte, so where the pieces are
// cut changes nothing; of several that become complete with the same byte, the longest counts. Held
// back is exactly the longest end of the text that a stop string begins with.
//
// One Knuth-Morris-Pratt automaton a string (Knuth, Morris, Pratt 1977): O(strings) per byte, no
// scan back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::server {

class StopMatcher {
 public:
  // No string may be empty. `includes_stop`: the stop string that ends the text is let out with it.
  StopMatcher(std::vector<std::string> stops, bool includes_stop);

  // The text that became certain; maybe empty. Precondition: !matched().
  std::string Push(std::string_view piece);
  // What was held back, when the text ends by itself.
  std::string Finish();

  // Which stop string has ended the text.
  std::optional<std::size_t> matched() const { return matched_; }
  const std::string& stop(std::size_t index) const { return patterns_[index].text; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> failure;  // [i]: length of the longest border of text[0, i]
    std::size_t matched_bytes = 0;     // the longest end of the input that `text` begins with
  };

  static void Advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  const bool includes_stop_;
  std::string held_;
  std::optional<std::size_t> matched_;
};

}  // namespace ashlar::server
