// The project's version; CMakeLists.txt reads it from here.
#pragma once

namespace ashlar {
inline constexpr const char kVersion[] = "0.1.0";
}  // namespace ashlar
