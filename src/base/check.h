// ASHLAR_CHECK(condition, "format", args...): stops the process with the reason when `condition` is
// false. For bugs only: nothing a user, file or socket can say may reach one. ASHLAR_DCHECK is the
// same in debug builds and costs nothing in release builds.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace ashlar::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

template <typename... Args>
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              fmt::format_string<Args...> format, Args&&... args) {
  CheckFailed(file, line, condition,
              std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  CheckFailed(file, line, condition, std::string_view());
}
}  // namespace ashlar::internal

#define ASHLAR_CHECK(condition, ...)                                                              \
  do {                                                                                            \
    if (!(condition)) [[unlikely]] {                                                              \
      ::ashlar::internal::CheckFailed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                             \
  } while (false)

#ifdef NDEBUG
#define ASHLAR_DCHECK(condition, ...)                     \
  do {                                                    \
    if (false) {                                          \
      ASHLAR_CHECK(condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                     \
  } while (false)
#else
#define ASHLAR_DCHECK(condition, ...) ASHLAR_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
