// JSON from and to strangers: parsing with bounds and with errors that name the field; printing
// that cannot fail.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/api_error.h"

namespace ashlar::server {

// Keeps the order of keys: chat templates print tools in the order they came.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  std::size_t max_depth = 64;
  // Bounds memory: a value of two bytes of text takes some 16 to 60 bytes parsed.
  std::size_t max_values = 2u << 20;
};

// Errors (400): not JSON (says at which byte and in which field), nested too deep, too many values,
// a key given twice, text that is not UTF-8, a number out of range.
ApiResult<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// One line. Bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const Json& json);

}  // namespace ashlar::server
