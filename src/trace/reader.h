// Traces from files, one line at a time, in memory that does not grow with the file:
//
//   Mooncake   JSON, a request a line, with `hash_ids` of its prompt's blocks
//   our own    JSON, a request a line, with `prefixes` of its tokens (`ashlar serve
//   --record-trace`) Azure      CSV, lengths only
//
// A first line that is Azure's header makes it the last; all others are JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/line_reader.h"
#include "trace/request.h"

namespace ashlar::trace {

enum class OnBadLine : std::uint8_t { kFail, kSkip };
enum class LineOrder : std::uint8_t { kByTime, kAny };

struct ReaderOptions {
  std::uint64_t block_tokens = 512;  // of a hash id, at least 1
  std::uint64_t max_requests = 0;    // 0: all
  OnBadLine on_bad = OnBadLine::kFail;
  LineOrder order = LineOrder::kByTime;
};

class Reader final : public Source {
 public:
  // Errors: kNotFound.
  static Result<std::unique_ptr<Reader>> Open(const std::string& path,
                                              const ReaderOptions& options);
  Reader(std::unique_ptr<std::istream> in, std::string name, const ReaderOptions& options);

  // Errors: kCorrupt with `name`:line for a line that is none of these, whose ids do not fit its
  // length, or that is earlier than the one before (kByTime); with kSkip they are passed over and
  // counted. kIo. kInvalidArgument at the end of a trace without requests.
  Result<bool> Next(Request& request) override;

  std::uint64_t requests() const { return requests_; }
  std::uint64_t skipped() const { return skipped_; }
  const std::string& first_skipped() const { return first_skipped_; }  // why; empty: none

 private:
  Status ReadLine(Request& request);

  const std::unique_ptr<std::istream> in_;
  const std::string name_;
  const ReaderOptions options_;
  LineReader lines_;
  bool is_azure_ = false;
  bool has_begun_ = false;
  double last_ms_ = 0;
  std::size_t last_line_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t skipped_ = 0;
  std::string first_skipped_;
};

// All of a trace, by timestamp, in the file's order where equal. Errors: of Reader.
Result<std::vector<Request>> ReadAll(Reader& reader);

}  // namespace ashlar::trace
