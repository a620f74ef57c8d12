#include "plot/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "plot/svg.h"

namespace ashlar::plot {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 340;
constexpr Frame kFrame = {.left = 84, .top = 64, .right = 836, .bottom = 276};
constexpr double kLetter = 7.2;  // width of a letter, about
constexpr std::array<std::string_view, kMaxLines> kColours = {"first", "second", "third", "fourth"};

bool HasPlace(const LinePoint& point, Scale x_scale) {
  return std::isfinite(point.x) && std::isfinite(point.y) && point.y >= 0 &&
         (x_scale == Scale::kLogarithmic ? point.x > 0 : point.x >= 0);
}

class Axes {
 public:
  Axes(std::span<const Line> lines, Scale x_scale) : is_log_(x_scale == Scale::kLogarithmic) {
    double low = 0;
    double high = 0;
    for (const Line& line : lines) {
      for (const LinePoint& point : line.points) {
        if (!HasPlace(point, x_scale)) continue;
        low = low == 0 ? point.x : std::min(low, point.x);
        high = std::max(high, point.x);
        y_high_ = std::max(y_high_, point.y);
      }
    }
    if (is_log_) {
      low_ = low > 0 ? std::floor(std::log10(low)) : 0;
      high_ = std::max(low_ + 1, high > 0 ? std::ceil(std::log10(high)) : 1);
    } else {
      high_ = high > 0 ? high : 1;
    }
    y_high_ = y_high_ > 0 ? y_high_ : 1;
    y_step_ = RoundStep(y_high_);
    y_high_ = std::ceil(y_high_ / y_step_) * y_step_;
  }

  double X(double x) const {
    const double at = is_log_ ? std::log10(x) : x;
    return kFrame.left + (at - low_) / (high_ - low_) * (kFrame.right - kFrame.left);
  }
  double Y(double y) const { return kFrame.bottom - y / y_high_ * (kFrame.bottom - kFrame.top); }

  std::string Svg(const ChartText& text) const {
    std::string svg;
    const auto y_ticks = static_cast<int>(std::lround(y_high_ / y_step_));
    for (int i = 0; i <= y_ticks; ++i) {
      svg += GridLine(kFrame.left, Y(i * y_step_), kFrame.right, Y(i * y_step_));
      svg += Text(kFrame.left - 8, Y(i * y_step_) + 4, Anchor::kEnd, Number(i * y_step_));
    }
    const double step =
        is_log_ ? std::max(1.0, std::ceil((high_ - low_) / 12)) : RoundStep(high_ - low_);
    const auto x_ticks = static_cast<int>((high_ - low_) / step + 1e-9);
    for (int i = 0; i <= x_ticks; ++i) {
      const double at = low_ + i * step;
      const double x = kFrame.left + (at - low_) / (high_ - low_) * (kFrame.right - kFrame.left);
      svg += GridLine(x, kFrame.top, x, kFrame.bottom);
      svg += Text(x, kFrame.bottom + 18, Anchor::kMiddle,
                  is_log_ ? Number(std::pow(10.0, at)) : Number(at));
    }
    return svg + AxisNames(kFrame, text.x_name, text.y_name);
  }

 private:
  bool is_log_;
  double low_ = 0;  // of x; its logarithm where the scale is one
  double high_ = 1;
  double y_high_ = 0;
  double y_step_ = 1;
};

std::string Path(const Line& line, std::string_view colour, const Axes& axes, Scale x_scale) {
  std::string places;
  const std::size_t stride = line.points.size() / kMaxLinePoints + 1;
  const auto add = [&](const LinePoint& point) {
    if (!HasPlace(point, x_scale)) return;
    places +=
        fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", axes.X(point.x), axes.Y(point.y));
  };
  for (std::size_t i = 0; i < line.points.size(); i += stride) add(line.points[i]);
  if (stride > 1) add(line.points.back());
  return fmt::format("<polyline class=\"line {}\" points=\"{}\"/>\n", colour, places);
}

std::string Legend(std::span<const Line> lines) {
  std::string svg;
  double x = kFrame.left;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg += fmt::format("<polyline class=\"line {}\" points=\"{:.1f},46 {:.1f},46\"/>\n",
                       kColours[i], x, x + 24);
    svg += Text(x + 30, 50, Anchor::kStart, lines[i].name);
    x += 60 + kLetter * static_cast<double>(lines[i].name.size());
  }
  return svg;
}

}  // namespace

std::string LineChart(std::span<const Line> lines, const ChartText& text, Scale x_scale) {
  ASHLAR_CHECK(lines.size() <= kMaxLines, "{} lines", lines.size());
  const Axes axes(lines, x_scale);
  std::string svg = Open(kWidth, kHeight, text.title) + Title(kFrame.left, 26, text.title);
  svg += Legend(lines) + axes.Svg(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg += Path(lines[i], kColours[i], axes, x_scale);
  }
  return svg + Close();
}

}  // namespace ashlar::plot
