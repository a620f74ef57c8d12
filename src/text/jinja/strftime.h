// strftime of a civil time, in the C locale whatever the process's is.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::text::jinja {

// The directives of C and Python that do not need a time zone (which is empty: the time has none),
// and glibc's `-` flag for numbers without padding. Errors: kUnsupported, naming the directive.
Result<std::string> FormatTime(std::chrono::local_seconds time, std::string_view format);

}  // namespace ashlar::text::jinja
