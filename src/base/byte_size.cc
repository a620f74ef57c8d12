#include "base/byte_size.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace ashlar {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

struct Unit {
  std::string_view suffix;
  std::uint64_t factor;
};

struct UnitTable {
  std::string_view what;       // "byte size"
  std::string_view would_fit;  // what a right value looks like
  const Unit* begin;
  const Unit* end;
};

// number * factor, exactly; the fraction may have at most 9 digits.
Result<std::uint64_t> ParseScaled(std::string_view text, const UnitTable& table) {
  const auto bad = [&](std::string_view why) {
    return MakeError(ErrorCode::kInvalidArgument, "'{}' is not a {}: {}; write it like {}", text,
                     table.what, why, table.would_fit);
  };
  std::uint64_t whole = 0;
  const char* const end = text.data() + text.size();
  auto [rest, failure] = std::from_chars(text.data(), end, whole);
  if (failure == std::errc::result_out_of_range) return bad("it does not fit in 64 bits");
  if (failure != std::errc()) return bad("it does not start with a digit");
  std::uint64_t fraction = 0;
  std::uint64_t fraction_scale = 1;
  if (rest != end && *rest == '.') {
    const char* const digits = ++rest;
    for (; rest != end && *rest >= '0' && *rest <= '9'; ++rest) {
      if (rest - digits >= 9) return bad("more than 9 digits after the point");
      fraction = fraction * 10 + static_cast<std::uint64_t>(*rest - '0');
      fraction_scale *= 10;
    }
    if (rest == digits) return bad("no digit after the point");
  }
  const std::string suffix = Lower(std::string_view(rest, static_cast<std::size_t>(end - rest)));
  const Unit* const unit = std::find_if(table.begin, table.end,
                                        [&](const Unit& u) { return Lower(u.suffix) == suffix; });
  if (unit == table.end) return bad(fmt::format("unknown unit '{}'", suffix));
  __extension__ using Wide = unsigned __int128;
  const Wide scaled_fraction = static_cast<Wide>(fraction) * unit->factor;
  if (scaled_fraction % fraction_scale != 0) return bad("it does not come out whole");
  const Wide value = static_cast<Wide>(whole) * unit->factor + scaled_fraction / fraction_scale;
  if (value > std::numeric_limits<std::uint64_t>::max()) return bad("it does not fit in 64 bits");
  return static_cast<std::uint64_t>(value);
}

}  // namespace

Result<std::uint64_t> ParseByteSize(std::string_view text) {
  static constexpr std::array<Unit, 6> kUnits = {
      {{"", 1}, {"B", 1}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}, {"TiB", 1024 * kGiB}}};
  return ParseScaled(text, {.what = "byte size",
                            .would_fit = "4294967296, 512MiB or 1.5GiB",
                            .begin = kUnits.data(),
                            .end = kUnits.data() + kUnits.size()});
}

Result<std::uint64_t> ParseTokenCount(std::string_view text) {
  static constexpr std::array<Unit, 3> kUnits = {{{"", 1}, {"k", kKiB}, {"m", kMiB}}};
  return ParseScaled(text, {.what = "number of tokens",
                            .would_fit = "4096 or 32k",
                            .begin = kUnits.data(),
                            .end = kUnits.data() + kUnits.size()});
}

std::string FormatByteSize(std::uint64_t bytes) {
  static constexpr std::array<Unit, 4> kUnits = {
      {{"TiB", 1024 * kGiB}, {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", kKiB}}};
  for (const Unit& unit : kUnits) {
    if (bytes < unit.factor) continue;
    const double value = static_cast<double>(bytes) / static_cast<double>(unit.factor);
    const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit.suffix);
  }
  return fmt::format("{} B", bytes);
}

std::string FormatWithCommas(std::uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

}  // namespace ashlar
