// The first byte chooses the size of the pieces the rest arrives in. However it is cut, the same
// request, or the same failure, must come out, within the limits.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/request_reader.h"

namespace ashlar::net {
namespace {

constexpr std::size_t kMaxHeaderBytes = 1024;
constexpr std::size_t kMaxBodyBytes = 512;

struct Outcome {
  RequestReader::Progress progress = RequestReader::Progress::kNeedsMore;
  int status = 0;
  HttpRequest request;
  std::size_t consumed = 0;
};

Outcome Read(std::string_view bytes, std::size_t piece) {
  RequestReader reader(kMaxHeaderBytes, kMaxBodyBytes);
  Outcome outcome;
  std::string waiting;
  for (std::size_t at = 0;
       at < bytes.size() && outcome.progress == RequestReader::Progress::kNeedsMore; at += piece) {
    waiting += bytes.substr(at, piece);
    std::size_t consumed = 0;
    outcome.progress = reader.Feed(waiting, consumed);
    ASHLAR_CHECK(consumed <= waiting.size());
    waiting.erase(0, consumed);
    outcome.consumed += consumed;
    ASHLAR_CHECK(reader.body_bytes() <= kMaxBodyBytes);
  }
  if (outcome.progress == RequestReader::Progress::kFailed) {
    outcome.status = reader.failure_status();
    ASHLAR_CHECK(outcome.status >= 400 && outcome.status < 600 &&
                 !reader.failure_message().empty());
  } else if (outcome.progress == RequestReader::Progress::kDone) {
    outcome.request = reader.TakeRequest();
  }
  return outcome;
}

}  // namespace
}  // namespace ashlar::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ashlar::net::Outcome;
  using ashlar::net::RequestReader;
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = ashlar::net::Read(bytes, bytes.size() + 1);
  const Outcome cut = ashlar::net::Read(bytes, 1 + data[0] % 64);
  if (whole.progress == RequestReader::Progress::kDone) {
    ASHLAR_CHECK(cut.progress == RequestReader::Progress::kDone);
    ASHLAR_CHECK(cut.consumed == whole.consumed);
    ASHLAR_CHECK(cut.request.method == whole.request.method);
    ASHLAR_CHECK(cut.request.path == whole.request.path);
    ASHLAR_CHECK(cut.request.headers == whole.request.headers);
    ASHLAR_CHECK(cut.request.body == whole.request.body);
    ASHLAR_CHECK(whole.request.path == "*" || whole.request.path.starts_with('/'));
  }
  return 0;
}
