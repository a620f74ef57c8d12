#include "eval/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/byte_size.h"
#include "base/text_table.h"
#include "model/kv_codec_spec.h"
#include "plot/frontier_plot.h"

namespace ashlar::eval {
namespace {

constexpr std::size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;

const Row& Names() {
  static const Row kNames = {"codec",  "bytes/token", "mean KL (nats)", "std error", "p99 KL",
                             "max KL", "same top1",   "perplexity",     "change (%)"};
  return kNames;
}

Row RowOf(const CodecQuality& codec) {
  return {codec.codec,
          FormatWithCommas(codec.kv_bytes_per_token),
          fmt::format("{:.3g}", codec.mean_kl_nats),
          fmt::format("{:.2g}", codec.mean_kl_stderr_nats),
          fmt::format("{:.3g}", codec.p99_kl_nats),
          fmt::format("{:.3g}", codec.max_kl_nats),
          fmt::format("{:.2f} %", 100.0 * codec.same_top1_share),
          fmt::format("{:.4f}", codec.perplexity),
          fmt::format("{:+.4f} ± {:.4f}", codec.perplexity_change_percent,
                      codec.perplexity_change_stderr_percent)};
}

// What the f32 cache gives, by definition at no distance from itself.
Row ReferenceRow(const CodecQuality& any) {
  return {"f32 cache", "", "", "", "", "", "", fmt::format("{:.4f}", any.perplexity_f32), ""};
}

std::vector<Row> RowsOf(std::span<const CodecQuality> codecs) {
  std::vector<Row> rows;
  if (!codecs.empty()) rows.push_back(ReferenceRow(codecs.front()));
  for (const CodecQuality& codec : codecs) rows.push_back(RowOf(codec));
  return rows;
}

}  // namespace

std::string TerminalTable(std::span<const CodecQuality> codecs) {
  TextTable table;
  table.Add({Names().begin(), Names().end()});
  for (const Row& row : RowsOf(codecs)) table.Add({row.begin(), row.end()});
  return table.Text();
}

std::string MarkdownTable(std::span<const CodecQuality> codecs) {
  std::string text = fmt::format("| {} |\n|---", fmt::join(Names(), " | "));
  for (std::size_t i = 1; i < kColumns; ++i) text += "|---:";
  text += "|\n";
  for (Row& row : RowsOf(codecs)) {
    row[0] = "`" + row[0] + "`";
    text += fmt::format("| {} |\n", fmt::join(row, " | "));
  }
  return text;
}

std::string QualityPlot(std::span<const CodecQuality> codecs, std::string_view title) {
  const auto is_preset = [](std::string_view spec) {
    return std::ranges::find(model::KvCodecPresets(), spec, &model::KvCodecPreset::name) !=
           model::KvCodecPresets().end();
  };
  std::vector<plot::PlotPoint> points;
  for (const CodecQuality& codec : codecs) {
    points.push_back(
        {.label = codec.codec,
         .x = static_cast<double>(codec.kv_bytes_per_token),
         .y = codec.mean_kl_nats,
         .series = is_preset(codec.codec) ? plot::PlotSeries::kSecond : plot::PlotSeries::kFirst});
  }
  return plot::FrontierPlot(points, {.title = std::string(title),
                                     .x_name = "KV bytes per token",
                                     .y_name = "mean KL(f32 cache || codec), nats",
                                     .first_series = "one codec",
                                     .second_series = "preset, or K and V apart"});
}

}  // namespace ashlar::eval
