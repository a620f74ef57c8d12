#include "text/jinja/strftime.h"

#include <gtest/gtest.h>

#include <ctime>

namespace ashlar::text::jinja {
namespace {

// Every directive but those whose result depends on the machine's time zone.
constexpr std::string_view kDirectives =
    "%a|%A|%b|%B|%c|%C|%d|%D|%e|%F|%g|%G|%h|%H|%I|%j|%m|%M|%n|%p|%r|%R|%S|%t|%T|%u|%U|%V|%w|%W|%x|%"
    "X|%y|%Y|%%|%-d|%-m|%-H|%-j|%-I";

std::string OfTheCLibrary(std::time_t time) {
  std::tm civil = {};
  gmtime_r(&time, &civil);
  std::string out(1000, '\0');
  out.resize(std::strftime(out.data(), out.size(), std::string(kDirectives).c_str(), &civil));
  return out;
}

TEST(Strftime, EqualsTheCLibraryOnEveryDayOfThirtyYears) {
  constexpr std::time_t kDay = 86400;
  for (std::time_t day = 10957; day < 10957 + 30 * 366; ++day) {  // from 2000-01-01
    const std::time_t time = day * kDay + (day * 7919) % kDay;
    const auto local = std::chrono::local_seconds(std::chrono::seconds(time));
    ASSERT_EQ(*FormatTime(local, kDirectives), OfTheCLibrary(time)) << time;
  }
}

TEST(Strftime, TextAndUnknownDirectives) {
  const auto time = std::chrono::local_seconds(std::chrono::seconds(0));
  EXPECT_EQ(*FormatTime(time, "on %F!"), "on 1970-01-01!");
  EXPECT_EQ(*FormatTime(time, "100%"), "100%");
  EXPECT_EQ(*FormatTime(time, "[%z%Z]"), "[]");
  EXPECT_EQ(FormatTime(time, "%Q").error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ashlar::text::jinja
