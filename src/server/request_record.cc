#include "server/request_record.h"

namespace ashlar::server {

std::string_view NameOf(Ending ending) {
  switch (ending) {
    case Ending::kStop:
      return "stop";
    case Ending::kLength:
      return "length";
    case Ending::kAbort:
      return "abort";
    case Ending::kError:
      return "error";
  }
  return "error";
}

}  // namespace ashlar::server
