// A strict reader of Prometheus' text format, for tests: whatever is not as the format says is a
// failed check.
#pragma once

#include <prometheus/metric_type.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::server::testing {

std::string TypeName(prometheus::MetricType type);  // "counter", "gauge", "histogram"

class Exposition {
 public:
  explicit Exposition(std::string_view text);

  // Types by name of family, and the names in order.
  const std::map<std::string, std::string>& families() const { return families_; }
  const std::vector<std::string>& order() const { return order_; }
  // Of one series, labels as they are written: `name{a="b"}`. Fails when there is none.
  double Value(const std::string& series) const;
  // Over all series of a name.
  double Sum(const std::string& name) const;

 private:
  void ReadSample(std::string_view line);
  void CheckHistograms() const;

  std::map<std::string, std::string> families_;
  std::vector<std::string> order_;
  std::map<std::string, double> series_;
};

}  // namespace ashlar::server::testing
