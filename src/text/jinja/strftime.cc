#include "text/jinja/strftime.h"

#include <fmt/format.h>

#include <array>

namespace ashlar::text::jinja {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

struct CivilTime {
  explicit CivilTime(std::chrono::local_seconds time) {
    const auto days = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(days);
    const std::chrono::hh_mm_ss clock(time - days);
    year = static_cast<int>(date.year());
    month = static_cast<int>(static_cast<unsigned>(date.month()));
    day = static_cast<int>(static_cast<unsigned>(date.day()));
    weekday = static_cast<int>(std::chrono::weekday(days).c_encoding());
    const auto new_year = std::chrono::local_days(date.year() / std::chrono::January / 1);
    year_day = static_cast<int>((days - new_year).count());
    hour = static_cast<int>(clock.hours().count());
    minute = static_cast<int>(clock.minutes().count());
    second = static_cast<int>(clock.seconds().count());
  }

  int year;
  int month;     // from 1
  int day;       // from 1
  int weekday;   // 0 is Sunday
  int year_day;  // from 0
  int hour;
  int minute;
  int second;
};

bool IsLeap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

struct IsoWeek {
  int year;
  int week;
};

// The week that ISO 8601 counts: from Monday, the first has the year's first Thursday.
IsoWeek IsoWeekOf(const CivilTime& time) {
  const int weekday = time.weekday == 0 ? 7 : time.weekday;
  const int week = (time.year_day + 1 - weekday + 10) / 7;
  const auto weeks_in = [](int year) {
    const auto first = std::chrono::weekday(
        std::chrono::local_days(std::chrono::year(year) / std::chrono::January / 1));
    const unsigned day = first.c_encoding();
    return day == 4 || (day == 3 && IsLeap(year)) ? 53 : 52;
  };
  if (week < 1) {
    return {time.year - 1, weeks_in(time.year - 1)};
  }
  if (week > weeks_in(time.year)) {
    return {time.year + 1, 1};
  }
  return {time.year, week};
}

enum class Padding { kUsual, kNone };  // kNone: the directive has the flag `-`

// A number of `width` digits, filled up with `fill`.
std::string Number(int value, int width, Padding padding, char fill = '0') {
  std::string digits = fmt::format("{}", value);
  while (padding == Padding::kUsual && static_cast<int>(digits.size()) < width) {
    digits.insert(digits.begin(), fill);
  }
  return digits;
}

Result<std::string> Directive(const CivilTime& time, char directive, Padding padding) {
  const int hour12 = time.hour % 12 == 0 ? 12 : time.hour % 12;
  const std::string_view day = kDays[static_cast<std::size_t>(time.weekday)];
  const std::string_view month = kMonths[static_cast<std::size_t>(time.month - 1)];
  switch (directive) {
    case 'a':
      return std::string(day.substr(0, 3));
    case 'A':
      return std::string(day);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'C':
      return Number(time.year / 100, 2, padding);
    case 'd':
      return Number(time.day, 2, padding);
    case 'e':
      return Number(time.day, 2, padding, ' ');
    case 'f':
      return std::string("000000");
    case 'g':
      return Number(IsoWeekOf(time).year % 100, 2, padding);
    case 'G':
      return Number(IsoWeekOf(time).year, 4, padding);
    case 'H':
      return Number(time.hour, 2, padding);
    case 'I':
      return Number(hour12, 2, padding);
    case 'j':
      return Number(time.year_day + 1, 3, padding);
    case 'm':
      return Number(time.month, 2, padding);
    case 'M':
      return Number(time.minute, 2, padding);
    case 'n':
      return std::string("\n");
    case 'p':
      return std::string(time.hour < 12 ? "AM" : "PM");
    case 'S':
      return Number(time.second, 2, padding);
    case 't':
      return std::string("\t");
    case 'u':
      return Number(time.weekday == 0 ? 7 : time.weekday, 1, padding);
    case 'U':
      return Number((time.year_day + 7 - time.weekday) / 7, 2, padding);
    case 'V':
      return Number(IsoWeekOf(time).week, 2, padding);
    case 'w':
      return Number(time.weekday, 1, padding);
    case 'W':
      return Number((time.year_day + 7 - (time.weekday + 6) % 7) / 7, 2, padding);
    case 'y':
      return Number(time.year % 100, 2, padding);
    case 'Y':
      return Number(time.year, 1, padding);
    case 'z':
    case 'Z':
      return std::string();
    case '%':
      return std::string("%");
    default:
      return MakeError(ErrorCode::kUnsupported, "the directive %{} of strftime_now()", directive);
  }
}

// Directives that stand for others.
std::string_view Expansion(char directive) {
  switch (directive) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'r':
      return "%I:%M:%S %p";
    case 'R':
      return "%H:%M";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    default:
      return "";
  }
}

}  // namespace

Result<std::string> FormatTime(std::chrono::local_seconds time, std::string_view format) {
  const CivilTime civil(time);
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    ++i;
    const bool has_flag = format[i] == '-' && i + 1 < format.size();
    i += has_flag ? 1 : 0;
    if (const std::string_view expansion = Expansion(format[i]); !expansion.empty()) {
      ASHLAR_ASSIGN(const std::string expanded, FormatTime(time, expansion));
      out += expanded;
      continue;
    }
    ASHLAR_ASSIGN(const std::string text,
                  Directive(civil, format[i], has_flag ? Padding::kNone : Padding::kUsual));
    out += text;
  }
  return out;
}

}  // namespace ashlar::text::jinja
