// A few lines over one x axis: the distribution of a latency, a speed over time, what grows with
// what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ashlar::plot {

enum class Scale : std::uint8_t {
  kLinear,       // from 0
  kLogarithmic,  // between powers of ten
  kDoubling,     // logarithmic between powers of two, which are named "1k", "2k", ...
};

struct Scales {
  Scale x = Scale::kLinear;
  Scale y = Scale::kLinear;
};

struct LinePoint {
  double x = 0;
  double y = 0;
};

struct Line {
  std::string name;
  std::vector<LinePoint> points;  // by x
};

// UTF-8 text, of any characters.
struct ChartText {
  std::string title;
  std::string x_name;
  std::string y_name;
};

inline constexpr std::size_t kMaxLines = 8;
inline constexpr std::size_t kMaxLinePoints = 1000;  // of more, every n-th is drawn, and the last

// A whole SVG document. Left out: points that are not finite or lie below 0, or at 0 on a
// logarithmic scale. Precondition: at most kMaxLines lines.
std::string LineChart(std::span<const Line> lines, const ChartText& text, const Scales& scales);

}  // namespace ashlar::plot
