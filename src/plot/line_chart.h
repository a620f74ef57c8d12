// Up to four lines over one x axis: the distribution of a latency, a speed over time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ashlar::plot {

enum class Scale : std::uint8_t { kLinear, kLogarithmic };

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

inline constexpr std::size_t kMaxLines = 4;
inline constexpr std::size_t kMaxLinePoints = 1000;  // of more, every n-th is drawn, and the last

// A whole SVG document; y is linear and begins at 0. Left out: points that are not finite, that lie
// below 0, or at x <= 0 on a logarithmic scale. Precondition: at most kMaxLines lines.
std::string LineChart(std::span<const Line> lines, const ChartText& text, Scale x_scale);

}  // namespace ashlar::plot
