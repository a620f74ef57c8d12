#include "server/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::server {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool includes_stop)
    : includes_stop_(includes_stop) {
  for (std::string& stop : stops) {
    ASHLAR_CHECK(!stop.empty(), "a stop string cannot be empty");
    Pattern pattern{.text = std::move(stop), .failure = {0}, .matched_bytes = 0};
    for (std::size_t i = 1; i < pattern.text.size(); ++i) {
      Advance(pattern, pattern.text[i]);
      pattern.failure.push_back(pattern.matched_bytes);
    }
    pattern.matched_bytes = 0;
    patterns_.push_back(std::move(pattern));
  }
}

// Precondition: not all of the text is matched.
void StopMatcher::Advance(Pattern& pattern, char byte) {
  std::size_t& matched = pattern.matched_bytes;
  while (matched > 0 && pattern.text[matched] != byte) {
    matched = pattern.failure[matched - 1];
  }
  if (pattern.text[matched] == byte) {
    ++matched;
  }
}

std::string StopMatcher::Push(std::string_view piece) {
  ASHLAR_DCHECK(!matched_.has_value());
  for (std::size_t at = 0; at < piece.size(); ++at) {
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      Advance(pattern, piece[at]);
      const bool is_complete = pattern.matched_bytes == pattern.text.size();
      if (is_complete && (!matched_ || pattern.text.size() > patterns_[*matched_].text.size())) {
        matched_ = i;
      }
    }
    if (matched_.has_value()) {
      held_ += piece.substr(0, at + 1);
      if (!includes_stop_) {
        held_.resize(held_.size() - patterns_[*matched_].text.size());
      }
      return std::exchange(held_, {});
    }
  }
  std::size_t held_bytes = 0;
  for (const Pattern& pattern : patterns_) {
    held_bytes = std::max(held_bytes, pattern.matched_bytes);
  }
  held_ += piece;
  std::string out = held_.substr(0, held_.size() - held_bytes);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace ashlar::server
