#include "trace/reader.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "trace/lines.h"

namespace ashlar::trace {

Result<std::unique_ptr<Reader>> Reader::Open(const std::string& path,
                                             const ReaderOptions& options) {
  auto in = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*in) return MakeError(ErrorCode::kNotFound, "cannot open the trace '{}'", path);
  return std::make_unique<Reader>(std::move(in), path, options);
}

Reader::Reader(std::unique_ptr<std::istream> in, std::string name, const ReaderOptions& options)
    : in_(std::move(in)), name_(std::move(name)), options_(options), lines_(*in_) {
  ASHLAR_CHECK(options.block_tokens > 0, "a hash id of no tokens");
}

Status Reader::ReadLine(Request& request) {
  if (lines_.is_too_long()) {
    return MakeError(ErrorCode::kCorrupt, "the line has more than {} bytes", kMaxLineBytes);
  }
  ASHLAR_TRY(is_azure_ ? ReadAzureLine(lines_.line(), request)
                       : ReadJsonLine(lines_.line(), options_.block_tokens, request));
  if (options_.order == LineOrder::kByTime && request.timestamp_ms < last_ms_) {
    return MakeError(ErrorCode::kCorrupt,
                     "its time, {:.3f} ms, is before the {:.3f} ms of line {}; a trace is sorted "
                     "by time",
                     request.timestamp_ms, last_ms_, last_line_);
  }
  return {};
}

Result<bool> Reader::Next(Request& request) {
  if (options_.max_requests > 0 && requests_ == options_.max_requests) return false;
  while (lines_.Next()) {
    if (!std::exchange(has_begun_, true)) {
      std::string_view first = lines_.line();
      if (first.ends_with('\r')) first.remove_suffix(1);
      is_azure_ = first == kAzureHeader;
      if (is_azure_) continue;
    }
    const Status read = ReadLine(request);
    if (read.ok()) {
      last_ms_ = request.timestamp_ms;
      last_line_ = lines_.number();
      ++requests_;
      return true;
    }
    std::string message = fmt::format("{}:{}: {}", name_, lines_.number(), read.error().message);
    if (options_.on_bad == OnBadLine::kFail) return Error{read.error().code, std::move(message)};
    if (skipped_++ == 0) first_skipped_ = std::move(message);
  }
  if (in_->bad()) return MakeError(ErrorCode::kIo, "{}: reading failed", name_);
  if (requests_ > 0) return false;
  return MakeError(ErrorCode::kInvalidArgument, "{}: no requests in this trace{}", name_,
                   skipped_ > 0
                       ? fmt::format("; {} lines are bad, the first: {}", skipped_, first_skipped_)
                       : "");
}

Result<std::vector<Request>> ReadAll(Reader& reader) {
  std::vector<std::pair<double, std::size_t>> order;
  std::vector<Request> requests;
  for (Request request;;) {
    ASHLAR_ASSIGN(const bool is_one, reader.Next(request));
    if (!is_one) break;
    order.emplace_back(request.timestamp_ms, requests.size());
    requests.push_back(std::move(request));
    request = {};
  }
  std::ranges::sort(order);
  std::vector<Request> sorted;
  sorted.reserve(requests.size());
  for (const auto& [time, index] : order) sorted.push_back(std::move(requests[index]));
  return sorted;
}

}  // namespace ashlar::trace
