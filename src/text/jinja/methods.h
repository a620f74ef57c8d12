// The methods of Python's str, list, tuple and dict that templates may call.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// The method `name` bound to `object`; nothing when Python's type has none of this name. Methods
// that change their object give undefined, which fails when it is called, as the reference's
// sandbox does. Errors: kUnsupported, when Python has the method and we do not.
Result<std::optional<Value>> FindMethod(Runtime& runtime, const Value& object,
                                        std::string_view name);

// str's part of it: the function behind a method, nullptr when we have none.
using MethodBody = Result<Value> (*)(Runtime&, const Value& self, const Arguments&);
MethodBody FindStringMethod(std::string_view name);

}  // namespace ashlar::text::jinja
