// Between JSON values and template values.
#pragma once

#include <nlohmann/json.hpp>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// A value for a variable of the context. Errors: kInvalidArgument (a string that is not UTF-8),
// kResourceExhausted (too deep, too large).
Result<Value> FromJson(Runtime& runtime, const nlohmann::ordered_json& json);

}  // namespace ashlar::text::jinja
