// JSON strings, for what is written without a JSON library: log lines, events, traces.
#pragma once

#include <string>
#include <string_view>

namespace ashlar {

// Appends `text` quoted. Bytes that are not UTF-8 become U+FFFD, so that the result is JSON
// whatever comes in.
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace ashlar
