// registry.json, put into the program by CMake (registry_data.cc.in).
#pragma once

#include <string_view>

namespace ashlar::plan {

extern const std::string_view kRegistryJson;

}  // namespace ashlar::plan
