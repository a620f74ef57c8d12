#include "server/testing/exposition.h"

#include <gtest/gtest.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace ashlar::server::testing {
namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNamePart(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Takes a name off the front of `text`; "" when none stands there. Names of metrics may have
// colons.
std::string_view TakeName(std::string_view& text, bool of_metric) {
  const auto is_colon = [&](char c) { return of_metric && c == ':'; };
  if (text.empty() || !(IsNameStart(text[0]) || is_colon(text[0]))) return {};
  std::size_t size = 1;
  while (size < text.size() && (IsNamePart(text[size]) || is_colon(text[size]))) ++size;
  const std::string_view name = text.substr(0, size);
  text.remove_prefix(size);
  return name;
}

// Takes ="VALUE" off the front, in which only \\, \" and \n are escaped.
bool TakeLabelValue(std::string_view& text) {
  if (!text.starts_with("=\"")) return false;
  text.remove_prefix(2);
  while (!text.empty() && text[0] != '"') {
    const std::size_t size = text[0] == '\\' ? 2 : 1;
    if (size > text.size() ||
        (size == 2 && std::string_view("\\\"n").find(text[1]) == std::string_view::npos))
      return false;
    text.remove_prefix(size);
  }
  if (text.empty()) return false;
  text.remove_prefix(1);
  return true;
}

// The metric's name in "name" or "name{label="value",...}"; "" where that is not the whole series.
std::string NameOfSeries(std::string_view series) {
  const std::string name(TakeName(series, true));
  if (series.empty()) return name;
  if (series[0] != '{' || series.back() != '}') return "";
  series = series.substr(1, series.size() - 2);
  while (!series.empty()) {
    if (TakeName(series, false).empty() || !TakeLabelValue(series)) return "";
    if (!series.empty() && series[0] != ',') return "";
    if (!series.empty()) series.remove_prefix(1);
  }
  return name;
}

// The family a series belongs to, of a histogram without its ending.
std::string FamilyOf(const std::string& name, const std::map<std::string, std::string>& families) {
  if (families.contains(name)) return name;
  for (const std::string_view ending : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(ending)) continue;
    const std::string family = name.substr(0, name.size() - ending.size());
    const auto found = families.find(family);
    if (found != families.end() && found->second == "histogram") return family;
  }
  return "";
}

double ParseValue(std::string_view text) {
  if (text == "+Inf") return INFINITY;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ASHLAR_CHECK(error == std::errc() && end == text.data() + text.size(), "no number: {}", text);
  return value;
}

}  // namespace

std::string TypeName(prometheus::MetricType type) {
  switch (type) {
    case prometheus::MetricType::Counter:
      return "counter";
    case prometheus::MetricType::Gauge:
      return "gauge";
    case prometheus::MetricType::Histogram:
      return "histogram";
    default:
      return "other";
  }
}

Exposition::Exposition(std::string_view text) {
  ASHLAR_CHECK(text.ends_with('\n'), "the last line has no end");
  std::string helped;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string line(text.substr(0, end));
    text.remove_prefix(end + 1);
    if (line.starts_with("# HELP ")) {
      helped = line.substr(7, line.find(' ', 7) - 7);
      std::string_view rest = helped;
      ASHLAR_CHECK(!TakeName(rest, true).empty() && rest.empty(), "{}", line);
    } else if (line.starts_with("# TYPE ")) {
      const std::size_t space = line.find(' ', 7);
      const std::string name = line.substr(7, space - 7);
      ASHLAR_CHECK(name == helped, "TYPE of {} follows HELP of {}", name, helped);
      const bool is_new = families_.emplace(name, line.substr(space + 1)).second;
      ASHLAR_CHECK(is_new, "{} comes twice", name);
      order_.push_back(name);
    } else {
      ReadSample(line);
    }
  }
  CheckHistograms();
}

void Exposition::ReadSample(std::string_view line) {
  const std::size_t space = line.rfind(' ');
  ASHLAR_CHECK(space != std::string_view::npos, "no value: {}", line);
  const std::string series(line.substr(0, space));
  const std::string name = NameOfSeries(series);
  ASHLAR_CHECK(!name.empty(), "no series: {}", series);
  ASHLAR_CHECK(!order_.empty() && FamilyOf(name, families_) == order_.back(),
               "{} is not of the family before it", series);
  const bool is_new = series_.emplace(series, ParseValue(line.substr(space + 1))).second;
  ASHLAR_CHECK(is_new, "{} comes twice", series);
}

// Buckets do not fall, and the last is the count.
void Exposition::CheckHistograms() const {
  for (const auto& [series, count] : series_) {
    const std::size_t at = series.find("_count");
    if (at == std::string::npos) continue;
    const std::string family = series.substr(0, at);
    const auto type = families_.find(family);
    if (type == families_.end() || type->second != "histogram") continue;
    std::string labels = at + 6 < series.size() ? series.substr(at + 7) : "}";
    labels.pop_back();
    if (!labels.empty()) labels += ",";
    std::map<double, double> buckets;
    const std::string head = family + "_bucket{" + labels + "le=\"";
    for (auto bucket = series_.lower_bound(head);
         bucket != series_.end() && bucket->first.starts_with(head); ++bucket) {
      const std::string bound =
          bucket->first.substr(head.size(), bucket->first.size() - head.size() - 2);
      buckets[ParseValue(bound)] = bucket->second;
    }
    ASHLAR_CHECK(!buckets.empty() && std::isinf(buckets.rbegin()->first), "{} has no +Inf", series);
    ASHLAR_CHECK(buckets.rbegin()->second == count, "{} and its last bucket differ", series);
    double below = 0;
    for (const auto& [bound, value] : buckets) {
      ASHLAR_CHECK(value >= below, "{}: bucket {} falls", series, bound);
      below = value;
    }
  }
}

double Exposition::Value(const std::string& series) const {
  const auto found = series_.find(series);
  if (found == series_.end()) {
    ADD_FAILURE() << "no series " << series;
    return NAN;
  }
  return found->second;
}

double Exposition::Sum(const std::string& name) const {
  double sum = 0;
  for (auto series = series_.lower_bound(name);
       series != series_.end() && series->first.starts_with(name); ++series) {
    if (series->first.size() == name.size() || series->first[name.size()] == '{') {
      sum += series->second;
    }
  }
  return sum;
}

}  // namespace ashlar::server::testing
