#include "plot/svg.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace ashlar::plot {

const std::string_view kStyle = R"(<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.frontier { fill: none; stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 5 4; }
.first { color: #0969da; fill: currentColor; }
.second { color: #bc4c00; fill: currentColor; }
.third { color: #1a7f37; fill: currentColor; }
.fourth { color: #cf222e; fill: currentColor; }
.fifth { color: #8250df; fill: currentColor; }
.sixth { color: #9a6700; fill: currentColor; }
.seventh { color: #1b7c83; fill: currentColor; }
.eighth { color: #bf3989; fill: currentColor; }
.line { fill: none; stroke: currentColor; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.grid { stroke: #3d444d; }
.frontier { stroke: #9198a1; }
.first { color: #58a6ff; }
.second { color: #f0883e; }
.third { color: #3fb950; }
.fourth { color: #f85149; }
.fifth { color: #bc8cff; }
.sixth { color: #d29922; }
.seventh { color: #39c5cf; }
.eighth { color: #f778ba; }
}
</style>
)";

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += ' ';
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Text(double x, double y, Anchor anchor, std::string_view text) {
  const std::string_view where = anchor == Anchor::kStart    ? ""
                                 : anchor == Anchor::kMiddle ? " text-anchor=\"middle\""
                                                             : " text-anchor=\"end\"";
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, where, Escape(text));
}

std::string Title(double x, double y, std::string_view text) {
  return fmt::format("<text class=\"title\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y,
                     Escape(text));
}

std::string GridLine(double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1, y1,
      x2, y2);
}

std::string AxisNames(const Frame& frame, std::string_view x_name, std::string_view y_name) {
  const double middle = (frame.top + frame.bottom) / 2;
  std::string svg =
      Text((frame.left + frame.right) / 2, frame.bottom + 40, Anchor::kMiddle, x_name);
  svg += fmt::format(
      "<text x=\"24\" y=\"{:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 24 {:.1f})\">{}"
      "</text>\n",
      middle, middle, Escape(y_name));
  return svg;
}

double RoundStep(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range / 5)));
  const double steps = range / 5 / power;  // 1 to 10
  return power * (steps <= 1 ? 1 : steps <= 2 ? 2 : steps <= 5 ? 5 : 10);
}

std::string Number(double value) { return fmt::format("{:.6g}", value); }

std::string PowerOfTen(int power) {
  static constexpr std::array<std::string_view, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                               "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = "10";
  for (const char c : fmt::format("{}", power)) {
    text += c == '-' ? "⁻" : kDigits[static_cast<std::size_t>(c - '0')];
  }
  return text;
}

std::string Open(double width, double height, std::string_view title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" role=\"img\">\n"
      "<title>{}</title>\n{}",
      width, height, Escape(title), kStyle);
}

std::string Close() { return "</svg>\n"; }

}  // namespace ashlar::plot
