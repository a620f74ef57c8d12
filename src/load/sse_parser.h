// Server-sent events from a stream of bytes, as servers really write them: lines end with LF, CR LF
// or CR; the space after the colon may be missing; comments and unknown fields are skipped; a last
// event without its blank line counts when the stream ends. Older llama.cpp servers send errors as
// lines "error: {...}": these are data, too.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::load {

class SseParser {
 public:
  // An event, or a line of any kind, may have `max_event_bytes`.
  explicit SseParser(std::size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  // False, from then on, when something was too long.
  bool Feed(std::string_view bytes);
  // The stream has ended.
  void End();
  // The data of the next whole event: its data lines, joined by LF.
  std::optional<std::string> Next();

 private:
  void EndLine();
  void EndEvent();

  const std::size_t max_event_bytes_;
  std::string line_;
  std::string data_;  // of the event that has begun
  bool has_data_ = false;
  bool is_after_cr_ = false;
  bool is_first_line_ = true;
  bool is_too_long_ = false;
  std::deque<std::string> events_;  // whole ones; their bytes are those of one Feed at most
};

}  // namespace ashlar::load
