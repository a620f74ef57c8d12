#include <string_view>

#include "ashlar/error.h"
#include "base/check.h"

namespace ashlar::cache {

std::string_view NameOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kNoMemory:
      return "no memory now";
    case ErrorCode::kLimit:
      return "limit";
  }
  return "unknown";
}

namespace internal {

void StopForMissingValue(std::string_view message) {
  ASHLAR_CHECK(false, "value() of an Expected that failed: {}", message);
}

void StopForMissingError() { ASHLAR_CHECK(false, "error() of an Expected that is ok"); }

}  // namespace internal
}  // namespace ashlar::cache
