#include "plot/frontier_plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "plot/svg.h"

namespace ashlar::plot {
namespace {

// In the units of the view box, which browsers show as pixels.
constexpr double kWidth = 860;
constexpr double kHeight = 540;
constexpr Frame kFrame = {.left = 84, .top = 64, .right = 836, .bottom = 456};
constexpr double kMark = 5;      // radius
constexpr double kLetter = 7.2;  // width of a letter of a label, about
constexpr double kLineHeight = 13;

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  double Overlap(const Box& other) const {
    const double width = std::min(right, other.right) - std::max(left, other.left);
    const double height = std::min(bottom, other.bottom) - std::max(top, other.top);
    return width > 0 && height > 0 ? width * height : 0;
  }
};

bool HasPlace(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && point.y > 0;
}

// Values to places: x linear between round numbers, y logarithmic between powers of ten.
class Axes {
 public:
  explicit Axes(std::span<const PlotPoint> points) {
    double x_low = 0, x_high = 1, y_low = 1, y_high = 1;
    bool is_first = true;
    for (const PlotPoint& point : points) {
      if (!HasPlace(point)) continue;
      x_low = is_first ? point.x : std::min(x_low, point.x);
      x_high = is_first ? point.x : std::max(x_high, point.x);
      y_low = is_first ? point.y : std::min(y_low, point.y);
      y_high = is_first ? point.y : std::max(y_high, point.y);
      is_first = false;
    }
    const double range = x_high > x_low ? x_high - x_low : std::max(1.0, std::abs(x_high));
    x_step_ = RoundStep(range);
    x_low_ = std::floor(x_low / x_step_) * x_step_;
    x_high_ = std::max(std::ceil(x_high / x_step_) * x_step_, x_low_ + x_step_);
    y_low_ = static_cast<int>(std::floor(std::log10(y_low)));
    y_high_ = std::max(static_cast<int>(std::ceil(std::log10(y_high))), y_low_ + 1);
  }

  double X(double x) const {
    return kFrame.left + (x - x_low_) / (x_high_ - x_low_) * (kFrame.right - kFrame.left);
  }
  double Y(double y) const {
    return kFrame.bottom -
           (std::log10(y) - y_low_) / (y_high_ - y_low_) * (kFrame.bottom - kFrame.top);
  }

  std::string Svg(const PlotText& text) const {
    std::string svg;
    const auto ticks = static_cast<int>(std::lround((x_high_ - x_low_) / x_step_));
    for (int i = 0; i <= ticks; ++i) {
      const double value = x_low_ + i * x_step_;
      svg += GridLine(X(value), kFrame.top, X(value), kFrame.bottom);
      svg += Text(X(value), kFrame.bottom + 18, Anchor::kMiddle, Number(value));
    }
    const int stride = (y_high_ - y_low_) / 12 + 1;  // not more names than fit
    for (int power = y_low_; power <= y_high_; power += stride) {
      const double share = static_cast<double>(power - y_low_) / (y_high_ - y_low_);
      const double y = kFrame.bottom - share * (kFrame.bottom - kFrame.top);
      svg += GridLine(kFrame.left, y, kFrame.right, y);
      svg += Text(kFrame.left - 8, y + 4, Anchor::kEnd, PowerOfTen(power));
    }
    return svg + AxisNames(kFrame, text.x_name, text.y_name);
  }

 private:
  double x_low_ = 0;
  double x_high_ = 1;
  double x_step_ = 1;
  int y_low_ = 0;  // powers of ten
  int y_high_ = 1;
};

std::string Mark(double x, double y, PlotSeries series) {
  if (series == PlotSeries::kFirst) {
    return fmt::format("<circle class=\"first\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\"/>\n", x, y,
                       kMark);
  }
  return fmt::format(
      "<path class=\"second\" d=\"M{:.1f} {:.1f}l{:g} {:g}l-{:g} {:g}l-{:g} -{:g}z\"/>\n", x,
      y - kMark - 1, kMark + 1, kMark + 1, kMark + 1, kMark + 1, kMark + 1, kMark + 1);
}

// Finds each label a place beside its mark where it covers the least of what is there already.
class Labels {
 public:
  void Avoid(const Box& box) { taken_.push_back(box); }

  std::string Place(double x, double y, const std::string& label) {
    const double width = kLetter * static_cast<double>(label.size());
    const double gap = kMark + 4;
    // Above first: right of a mark the frontier often goes on.
    const std::array<std::array<double, 2>, 8> corners = {{{x + gap - 3, y - gap - kLineHeight + 3},
                                                           {x + gap, y - kLineHeight / 2},
                                                           {x - gap - width, y - kLineHeight / 2},
                                                           {x - gap - width + 3, y + gap - 3},
                                                           {x + gap - 3, y + gap - 3},
                                                           {x - width / 2, y - gap - kLineHeight},
                                                           {x - width / 2, y + gap},
                                                           {x - gap - width, y - gap - 10}}};
    Box best;
    double best_cost = -1;
    for (const auto& [left, top] : corners) {
      const Box box = {
          .left = left, .top = top, .right = left + width, .bottom = top + kLineHeight};
      double cost = 0;
      for (const Box& taken : taken_) cost += box.Overlap(taken);
      if (box.left < kFrame.left || box.right > kFrame.right || box.top < kFrame.top ||
          box.bottom > kFrame.bottom) {
        cost += 1000;  // more than any overlap of two labels of usual length
      }
      if (best_cost < 0 || cost < best_cost) {
        best = box;
        best_cost = cost;
      }
    }
    taken_.push_back(best);
    return Text(best.left, best.bottom - 3, Anchor::kStart, label);
  }

 private:
  std::vector<Box> taken_;
};

std::string Points(std::span<const PlotPoint> points, const Axes& axes) {
  std::string svg;
  Labels labels;
  for (const PlotPoint& point : points) {
    if (!HasPlace(point)) continue;
    const double x = axes.X(point.x);
    const double y = axes.Y(point.y);
    svg += Mark(x, y, point.series);
    labels.Avoid({.left = x - kMark, .top = y - kMark, .right = x + kMark, .bottom = y + kMark});
  }
  for (const PlotPoint& point : points) {
    if (HasPlace(point)) svg += labels.Place(axes.X(point.x), axes.Y(point.y), point.label);
  }
  return svg;
}

std::string Frontier(std::span<const PlotPoint> points, const Axes& axes) {
  std::string places;
  for (const std::size_t index : FrontierOf(points)) {
    places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", axes.X(points[index].x),
                          axes.Y(points[index].y));
  }
  return fmt::format("<polyline class=\"frontier\" points=\"{}\"/>\n", places);
}

std::string Legend(const PlotText& text) {
  std::string svg = Mark(kFrame.left + 6, 46, PlotSeries::kFirst);
  svg += Text(kFrame.left + 18, 50, Anchor::kStart, text.first_series);
  const double second = kFrame.left + 60 + kLetter * static_cast<double>(text.first_series.size());
  svg += Mark(second, 46, PlotSeries::kSecond);
  svg += Text(second + 12, 50, Anchor::kStart, text.second_series);
  const double third = second + 54 + kLetter * static_cast<double>(text.second_series.size());
  svg += fmt::format("<polyline class=\"frontier\" points=\"{:.1f},46 {:.1f},46\"/>\n", third,
                     third + 28);
  return svg + Text(third + 36, 50, Anchor::kStart, "frontier");
}

}  // namespace

std::vector<std::size_t> FrontierOf(std::span<const PlotPoint> points) {
  std::vector<std::size_t> frontier;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!HasPlace(points[i])) continue;
    bool is_beaten = false;
    for (std::size_t j = 0; j < points.size(); ++j) {
      if (j == i || !HasPlace(points[j])) continue;
      const bool is_no_worse = points[j].x <= points[i].x && points[j].y <= points[i].y;
      const bool is_equal = points[j].x == points[i].x && points[j].y == points[i].y;
      is_beaten = is_beaten || (is_no_worse && (!is_equal || j < i));
    }
    if (!is_beaten) frontier.push_back(i);
  }
  std::ranges::sort(frontier, {}, [&](std::size_t i) { return points[i].x; });
  return frontier;
}

std::string FrontierPlot(std::span<const PlotPoint> points, const PlotText& text) {
  const Axes axes(points);
  std::vector<std::string> missing;
  for (const PlotPoint& point : points) {
    if (!HasPlace(point)) missing.push_back(fmt::format("{} ({:g})", point.label, point.y));
  }
  std::string svg = Open(kWidth, kHeight, text.title) + Title(kFrame.left, 26, text.title);
  svg += Legend(text) + axes.Svg(text) + Frontier(points, axes) + Points(points, axes);
  if (!missing.empty()) {
    svg += Text(kFrame.left, kHeight - 16, Anchor::kStart,
                fmt::format("not on this scale: {}", fmt::join(missing, ", ")));
  }
  return svg + Close();
}

}  // namespace ashlar::plot
