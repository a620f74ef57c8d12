#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "trace/lines.h"

namespace ashlar::trace {
namespace {

constexpr std::size_t kShownBytes = 60;
constexpr std::size_t kSecondsAt = 17;  // in "2023-11-16 18:17:03.9799600"

std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kShownBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

// All of the text is one number.
template <typename Number>
bool Parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// "2023-11-16 18:17:03.9799600" in ms since 1970; false when it is none.
bool ParseTime(std::string_view text, double& ms) {
  constexpr std::string_view kForm = "0000-00-00 00:00:00";
  if (text.size() < kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !is_digit : text[i] != kForm[i]) return false;
  }
  std::array<unsigned, 5> parts{};
  constexpr std::array<std::pair<std::size_t, std::size_t>, 5> kParts = {
      {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!Parse(text.substr(kParts[i].first, kParts[i].second), parts[i])) return false;
  }
  double seconds = 0;
  if (!Parse(text.substr(kSecondsAt), seconds) || !(seconds >= 0 && seconds < 61)) return false;
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(parts[0])),
                                        std::chrono::month(parts[1]), std::chrono::day(parts[2])};
  if (!day.ok() || parts[0] < 1970 || parts[3] > 23 || parts[4] > 59) return false;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  ms = (static_cast<double>(days) * 24 * 60 + parts[3] * 60.0 + parts[4]) * 60'000 + seconds * 1000;
  return true;
}

Result<std::uint64_t> LengthOf(std::string_view text, std::string_view name) {
  std::uint64_t value = 0;
  if (Parse(text, value) && value >= 1 && value <= kMaxTokens) return value;
  return MakeError(ErrorCode::kCorrupt, "{} is '{}'; it must be a whole number of tokens, 1 to {}",
                   name, Shown(text), kMaxTokens);
}

}  // namespace

Status ReadAzureLine(std::string_view line, Request& request) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t first = line.find(',');
  const std::size_t second = first == line.npos ? first : line.find(',', first + 1);
  if (second == line.npos || line.find(',', second + 1) != line.npos) {
    return MakeError(ErrorCode::kCorrupt, "'{}' does not have the three fields {}", Shown(line),
                     kAzureHeader);
  }
  if (!ParseTime(line.substr(0, first), request.timestamp_ms)) {
    return MakeError(ErrorCode::kCorrupt,
                     "TIMESTAMP is '{}'; it must be like 2023-11-16 18:17:03.9799600",
                     Shown(line.substr(0, first)));
  }
  ASHLAR_ASSIGN(request.input_tokens,
                LengthOf(line.substr(first + 1, second - first - 1), "ContextTokens"));
  ASHLAR_ASSIGN(request.output_tokens, LengthOf(line.substr(second + 1), "GeneratedTokens"));
  request.max_tokens = request.output_tokens;
  request.hash_ids.clear();
  request.prefixes.clear();
  request.scope.clear();
  request.tenant.clear();
  request.priority = 0;
  return {};
}

}  // namespace ashlar::trace
