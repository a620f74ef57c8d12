// A plot of cost against loss as SVG, written by hand: points with labels, a logarithmic y axis,
// and the frontier of those that no other point beats in both. Readable on a light and on a dark
// page: the background is the page's, and the colours follow the reader's scheme.
//
// Deterministic: the same points give the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ashlar::plot {

enum class PlotSeries : std::uint8_t { kFirst, kSecond };  // a round mark; a square on its corner

struct PlotPoint {
  std::string label;
  double x = 0;
  double y = 0;  // points with y <= 0 have no place on the axis: they are named below the plot
  PlotSeries series = PlotSeries::kFirst;
};

// UTF-8 text, of any characters.
struct PlotText {
  std::string title;
  std::string x_name;
  std::string y_name;
  std::string first_series;
  std::string second_series;
};

// A whole SVG document. Points that are not finite are named like those of y <= 0.
std::string FrontierPlot(std::span<const PlotPoint> points, const PlotText& text);

// Indices of the points that no other one beats (x and y both at most as large, one smaller), by x;
// of equal points the first. Points without a place on the plot are never among them. O(n^2).
std::vector<std::size_t> FrontierOf(std::span<const PlotPoint> points);

}  // namespace ashlar::plot
