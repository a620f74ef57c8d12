#include "eval/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace ashlar::eval {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<CodecQuality> TwoCodecs() {
  return {{.codec = "f16",
           .kv_bytes_per_token = 23'040,
           .positions = 100,
           .mean_kl_nats = 1.25e-6,
           .mean_kl_stderr_nats = 2e-8,
           .p99_kl_nats = 9e-6,
           .max_kl_nats = 1e-4,
           .same_top1_share = 0.9999,
           .perplexity_f32 = 12.5,
           .perplexity = 12.5001,
           .perplexity_change_percent = 0.0008,
           .perplexity_change_stderr_percent = 0.0002},
          {.codec = "k=f16,v=bf16",
           .kv_bytes_per_token = 23'040,
           .positions = 100,
           .mean_kl_nats = 1.25e-4,
           .mean_kl_stderr_nats = 2e-6,
           .p99_kl_nats = 9e-4,
           .max_kl_nats = 1e-2,
           .same_top1_share = 0.97,
           .perplexity_f32 = 12.5,
           .perplexity = 12.4,
           .perplexity_change_percent = -0.8,
           .perplexity_change_stderr_percent = 0.2}};
}

TEST(Report, MarkdownHasALineForEachCodecAndOneForTheReference) {
  EXPECT_EQ(MarkdownTable(TwoCodecs()),
            "| codec | bytes/token | mean KL (nats) | std error | p99 KL | max KL | same top1 | "
            "perplexity | change (%) |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            "| `f32 cache` |  |  |  |  |  |  | 12.5000 |  |\n"
            "| `f16` | 23,040 | 1.25e-06 | 2e-08 | 9e-06 | 0.0001 | 99.99 % | 12.5001 | +0.0008 ± "
            "0.0002 |\n"
            "| `k=f16,v=bf16` | 23,040 | 0.000125 | 2e-06 | 0.0009 | 0.01 | 97.00 % | 12.4000 | "
            "-0.8000 ± 0.2000 |\n");
}

TEST(Report, TheTerminalTableIsAligned) {
  std::istringstream lines(TerminalTable(TwoCodecs()));
  std::string names, reference, first, second;
  std::getline(lines, names);
  std::getline(lines, reference);
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_EQ(first.size(), second.size());
  EXPECT_EQ(first.find("1.25e-06") + 8, second.find("0.000125") + 8);
  EXPECT_EQ(names.find("perplexity") + 10, reference.size());
  EXPECT_FALSE(std::getline(lines, names));
}

TEST(Report, ThePlotTellsCodecsFromPresets) {
  std::vector<CodecQuality> all = TwoCodecs();
  all[0].codec = "hq8";
  all[1].codec = "balanced";
  const std::string svg = QualityPlot(all, "title");
  EXPECT_THAT(svg, HasSubstr(">title<"));
  EXPECT_THAT(svg, HasSubstr(">balanced<"));
  const std::string marks = svg.substr(svg.rfind("<polyline"));
  EXPECT_THAT(marks, HasSubstr("<circle class=\"first\""));
  EXPECT_THAT(marks, HasSubstr("<path class=\"second\""));
  const std::string one = QualityPlot(std::span(all).first(1), "title");
  EXPECT_THAT(one.substr(one.rfind("<polyline")), Not(HasSubstr("<path class=\"second\"")));
}

}  // namespace
}  // namespace ashlar::eval
