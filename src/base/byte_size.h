// Sizes in bytes and lengths in tokens, as people write them on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

// "4096", "512MiB", "1.5GiB": plain bytes, or a number and one of KiB, MiB, GiB, TiB (any case). A
// fraction must come out as whole bytes.
Result<std::uint64_t> ParseByteSize(std::string_view text);

// "32768", "32k" (= 32,768), "1m" (= 1,048,576): a count of tokens.
Result<std::uint64_t> ParseTokenCount(std::string_view text);

// "1.50 GiB", "368,640 B": three significant digits for people; never parsed back.
std::string FormatByteSize(std::uint64_t bytes);

// 42949672960 -> "42,949,672,960".
std::string FormatWithCommas(std::uint64_t value);

}  // namespace ashlar
