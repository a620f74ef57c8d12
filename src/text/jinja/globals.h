// The functions that every template can call by name: range, dict, namespace, cycler, joiner,
// raise_exception, strftime_now.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

std::optional<Value> FindGlobal(std::string_view name);

}  // namespace ashlar::text::jinja
