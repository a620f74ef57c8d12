#include "load/sse_parser.h"

#include <utility>

namespace ashlar::load {

bool SseParser::Feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (is_too_long_) return false;
    if (std::exchange(is_after_cr_, false) && c == '\n') continue;
    if (c == '\n' || c == '\r') {
      is_after_cr_ = c == '\r';
      EndLine();
    } else if (line_.size() + data_.size() >= max_event_bytes_) {
      is_too_long_ = true;
    } else {
      line_ += c;
    }
  }
  return !is_too_long_;
}

void SseParser::End() {
  if (!line_.empty()) EndLine();
  EndEvent();
}

std::optional<std::string> SseParser::Next() {
  if (events_.empty()) return std::nullopt;
  std::string event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void SseParser::EndLine() {
  std::string_view line = line_;
  if (std::exchange(is_first_line_, false) && line.starts_with("\xEF\xBB\xBF")) {
    line.remove_prefix(3);  // a byte order mark
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (line.empty()) {
    EndEvent();
  } else if (field == "data" || field == "error") {
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += value;
  }
  line_.clear();
}

void SseParser::EndEvent() {
  if (std::exchange(has_data_, false)) events_.push_back(std::exchange(data_, {}));
}

}  // namespace ashlar::load
