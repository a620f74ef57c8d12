#include "server/metric_catalog.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "server/testing/exposition.h"

namespace ashlar::server {
namespace {

TEST(MetricCatalog, NamesSayWhatKindTheyAre) {
  std::set<std::string_view> names;
  for (const MetricInfo& info : MetricCatalog()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(&MetricNamed(info.name), &info);
    EXPECT_TRUE(info.help.ends_with('.')) << info.name;
    // vLLM has a histogram of that ending.
    if (info.name == "vllm:iteration_tokens_total") continue;
    EXPECT_EQ(info.name.ends_with("_total"), info.type == prometheus::MetricType::Counter)
        << info.name;
  }
}

// docs/metrics.md has a row for each, in order, and no other.
TEST(MetricCatalog, TheDocumentSaysTheSame) {
  std::vector<std::string> want;
  for (const MetricInfo& info : MetricCatalog()) {
    want.push_back(fmt::format("| `{}` | {} | {} | {} | {} |", info.name,
                               testing::TypeName(info.type), info.unit.empty() ? "-" : info.unit,
                               info.labels.empty() ? "-" : info.labels, info.help));
  }
  std::vector<std::string> rows;
  std::ifstream file(ASHLAR_SOURCE_DIR "/docs/metrics.md");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) rows.push_back(line);
  }
  EXPECT_EQ(rows, want);
}

}  // namespace
}  // namespace ashlar::server
