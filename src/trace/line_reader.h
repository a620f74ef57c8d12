// Lines of a stream, numbered, none of them unboundedly long.
#pragma once

#include <cstddef>
#include <istream>
#include <string>

namespace ashlar::trace {

inline constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

class LineReader {
 public:
  explicit LineReader(std::istream& in) : in_(in) {}

  // The next line that is not blank; false at the end or when reading fails (in.bad()).
  bool Next();
  // Without its end. Of a longer one than kMaxLineBytes only the beginning: is_too_long.
  const std::string& line() const { return line_; }
  bool is_too_long() const { return line_.size() > kMaxLineBytes; }
  std::size_t number() const { return number_; }  // from 1

 private:
  bool Read();

  std::istream& in_;
  std::string line_;
  std::size_t number_ = 0;
};

}  // namespace ashlar::trace
