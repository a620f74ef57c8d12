#include "plot/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "plot/svg.h"

namespace ashlar::plot {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 340;
constexpr Frame kFrame = {.left = 84, .top = 64, .right = 836, .bottom = 276};
constexpr double kLetter = 7.2;  // width of a letter, about
constexpr std::array<std::string_view, kMaxLines> kColours = {
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"};
constexpr double kMaxTicks = 12;

bool HasPlace(double value, Scale scale) {
  return std::isfinite(value) && (scale == Scale::kLinear ? value >= 0 : value > 0);
}
bool HasPlace(const LinePoint& point, const Scales& scales) {
  return HasPlace(point.x, scales.x) && HasPlace(point.y, scales.y);
}

// "1k" for 1024.
std::string BinaryNumber(double value) {
  static constexpr std::array<std::string_view, 4> kUnits = {"", "k", "m", "g"};
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return Number(value) + std::string(kUnits[unit]);
}

enum class Top : std::uint8_t { kExact, kRounded };  // where a linear axis ends

// Values to shares of an axis.
class Axis {
 public:
  // Of values from `low` (the least above 0) to `high`; 0 for none.
  Axis(Scale scale, double low, double high, Top top) : scale_(scale) {
    if (scale == Scale::kLinear) {
      high_ = high > 0 ? high : 1;
      step_ = RoundStep(high_);
      if (top == Top::kRounded) high_ = std::ceil(high_ / step_) * step_;
      return;
    }
    low_ = low > 0 ? std::floor(Exponent(low)) : 0;
    high_ = std::max(low_ + 1, high > 0 ? std::ceil(Exponent(high)) : 1);
    step_ = std::max(1.0, std::ceil((high_ - low_) / kMaxTicks));
  }

  double Share(double value) const {
    return ((scale_ == Scale::kLinear ? value : Exponent(value)) - low_) / (high_ - low_);
  }

  struct Tick {
    double share;
    std::string name;
  };
  std::vector<Tick> Ticks() const {
    const auto count = static_cast<int>((high_ - low_) / step_ + 1e-9);
    std::vector<Tick> ticks;
    ticks.reserve(static_cast<std::size_t>(count) + 1);
    for (int i = 0; i <= count; ++i) {
      const double at = low_ + i * step_;
      ticks.push_back({(at - low_) / (high_ - low_), scale_ == Scale::kLinear ? Number(at)
                                                     : scale_ == Scale::kLogarithmic
                                                         ? Number(std::pow(10.0, at))
                                                         : BinaryNumber(std::exp2(at))});
    }
    return ticks;
  }

 private:
  double Exponent(double value) const {
    return scale_ == Scale::kDoubling ? std::log2(value) : std::log10(value);
  }

  Scale scale_;
  double low_ = 0;  // exponents where the scale is logarithmic
  double high_ = 1;
  double step_ = 1;
};

struct Range {
  double low = 0;  // above 0; 0: no value is
  double high = 0;

  void Add(double value) {
    if (value > 0) low = low == 0 ? value : std::min(low, value);
    high = std::max(high, value);
  }
};

class Axes {
 public:
  Axes(std::span<const Line> lines, const Scales& scales) : Axes(RangesOf(lines, scales), scales) {}

  double X(double x) const { return PlaceX(x_.Share(x)); }
  double Y(double y) const { return PlaceY(y_.Share(y)); }

  std::string Svg(const ChartText& text) const {
    std::string svg;
    for (const Axis::Tick& tick : y_.Ticks()) {
      const double y = PlaceY(tick.share);
      svg += GridLine(kFrame.left, y, kFrame.right, y);
      svg += Text(kFrame.left - 8, y + 4, Anchor::kEnd, tick.name);
    }
    for (const Axis::Tick& tick : x_.Ticks()) {
      const double x = PlaceX(tick.share);
      svg += GridLine(x, kFrame.top, x, kFrame.bottom);
      svg += Text(x, kFrame.bottom + 18, Anchor::kMiddle, tick.name);
    }
    return svg + AxisNames(kFrame, text.x_name, text.y_name);
  }

 private:
  using Ranges = std::array<Range, 2>;

  Axes(const Ranges& ranges, const Scales& scales)
      : x_(scales.x, ranges[0].low, ranges[0].high, Top::kExact),
        y_(scales.y, ranges[1].low, ranges[1].high, Top::kRounded) {}

  static Ranges RangesOf(std::span<const Line> lines, const Scales& scales) {
    Ranges ranges;
    for (const Line& line : lines) {
      for (const LinePoint& point : line.points) {
        if (!HasPlace(point, scales)) continue;
        ranges[0].Add(point.x);
        ranges[1].Add(point.y);
      }
    }
    return ranges;
  }

  static double PlaceX(double share) { return kFrame.left + share * (kFrame.right - kFrame.left); }
  static double PlaceY(double share) {
    return kFrame.bottom - share * (kFrame.bottom - kFrame.top);
  }

  Axis x_;
  Axis y_;
};

std::string Path(const Line& line, std::string_view colour, const Axes& axes,
                 const Scales& scales) {
  std::string places;
  const std::size_t stride = line.points.size() / kMaxLinePoints + 1;
  const auto add = [&](const LinePoint& point) {
    if (!HasPlace(point, scales)) return;
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

std::string LineChart(std::span<const Line> lines, const ChartText& text, const Scales& scales) {
  ASHLAR_CHECK(lines.size() <= kMaxLines, "{} lines", lines.size());
  const Axes axes(lines, scales);
  std::string svg = Open(kWidth, kHeight, text.title) + Title(kFrame.left, 26, text.title);
  svg += Legend(lines) + axes.Svg(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg += Path(lines[i], kColours[i], axes, scales);
  }
  return svg + Close();
}

}  // namespace ashlar::plot
