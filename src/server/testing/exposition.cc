#include "server/testing/exposition.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <regex>

#include "base/check.h"

namespace ashlar::server::testing {
namespace {

const std::regex kName("[a-zA-Z_:][a-zA-Z0-9_:]*");
const std::regex kSeries(
    R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*",?)*\})?)re");

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
      ASHLAR_CHECK(std::regex_match(helped, kName), "{}", line);
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
  std::smatch parts;
  ASHLAR_CHECK(std::regex_match(series, parts, kSeries), "no series: {}", series);
  ASHLAR_CHECK(!order_.empty() && FamilyOf(parts[1], families_) == order_.back(),
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
