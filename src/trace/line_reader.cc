#include "trace/line_reader.h"

namespace ashlar::trace {

bool LineReader::Read() {
  line_.clear();
  std::streambuf* const bytes = in_.rdbuf();
  ++number_;
  for (;;) {
    const int byte = bytes->sbumpc();
    if (byte == std::char_traits<char>::eof()) return !line_.empty();
    if (byte == '\n') return true;
    if (!is_too_long()) line_ += static_cast<char>(byte);  // the rest of it is passed over
  }
}

bool LineReader::Next() {
  while (Read()) {
    if (is_too_long() || line_.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
  return false;
}

}  // namespace ashlar::trace
