// The tests: `value is name(arguments)`.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

bool HasTest(std::string_view name);
// What to say about a test that we do not have.
std::string UnknownTest(std::string_view name);
Result<bool> CallTest(Runtime& runtime, std::string_view name, const Value& value,
                      const Arguments& arguments);

}  // namespace ashlar::text::jinja
