#include "plot/span_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "plot/svg.h"

namespace ashlar::plot {
namespace {

constexpr double kWidth = 860;
constexpr double kLeft = 84;
constexpr double kRight = 836;
constexpr double kTop = 64;
constexpr double kLargestRow = 12;
constexpr double kHighest = 500;  // of all rows together
constexpr double kLetter = 7.2;
constexpr std::array<std::string_view, 4> kColours = {"first", "second", "third", "fourth"};

std::string_view NameOf(Colour colour) { return kColours[static_cast<std::size_t>(colour)]; }

bool HasPlace(const SpanPiece& piece) {
  return std::isfinite(piece.begin_s) && std::isfinite(piece.end_s) && piece.begin_s >= 0 &&
         piece.end_s >= piece.begin_s;
}

std::string Rectangle(double x, double y, double width, double height, Colour colour) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>\n",
      NameOf(colour), x, y, width, height);
}

}  // namespace

std::string SpanChart(std::span<const SpanRow> rows, const SpanText& text) {
  const std::size_t shown = std::min(rows.size(), kMaxSpanRows);
  const double row_height =
      shown == 0 ? 0 : std::min(kLargestRow, kHighest / static_cast<double>(shown));
  const Frame frame = {.left = kLeft,
                       .top = kTop,
                       .right = kRight,
                       .bottom = kTop + std::max(60.0, row_height * static_cast<double>(shown))};
  double end_s = 0;
  for (const SpanRow& row : rows) {
    for (const SpanPiece& piece : row) {
      if (HasPlace(piece)) end_s = std::max(end_s, piece.end_s);
    }
  }
  if (end_s == 0) end_s = 1;
  const auto x_of = [&](double seconds) { return kLeft + seconds / end_s * (kRight - kLeft); };

  std::string svg = Open(kWidth, frame.bottom + 64, text.title) + Title(frame.left, 26, text.title);
  double legend = frame.left;
  for (std::size_t i = 0; i < std::min(text.colours.size(), kColours.size()); ++i) {
    svg += Rectangle(legend, 42, 20, 8, static_cast<Colour>(i));
    svg += Text(legend + 26, 50, Anchor::kStart, text.colours[i]);
    legend += 56 + kLetter * static_cast<double>(text.colours[i].size());
  }
  const double step = RoundStep(end_s);
  for (int i = 0; i * step <= end_s; ++i) {
    svg += GridLine(x_of(i * step), frame.top, x_of(i * step), frame.bottom);
    svg += Text(x_of(i * step), frame.bottom + 18, Anchor::kMiddle, Number(i * step));
  }
  svg += AxisNames(frame, "seconds", text.y_name);
  for (std::size_t i = 0; i < shown; ++i) {
    const double y = frame.top + row_height * static_cast<double>(i);
    for (const SpanPiece& piece : rows[i * rows.size() / shown]) {
      if (!HasPlace(piece)) continue;
      svg += Rectangle(x_of(piece.begin_s), y, x_of(piece.end_s) - x_of(piece.begin_s),
                       row_height * 0.9, piece.colour);
    }
  }
  return svg + Close();
}

}  // namespace ashlar::plot
