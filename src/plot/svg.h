// What all plots draw alike, as text: the same arguments give the same bytes. Coordinates are those
// of the view box, which browsers show as pixels; y grows downward.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar::plot {

// For <style> in an SVG: text, .grid, .title, and .first to .eighth as colours, in the reader's
// scheme. The background is the page's.
extern const std::string_view kStyle;

// Text in XML. Control characters, most of which are no XML at all, become spaces.
std::string Escape(std::string_view text);

struct Frame {  // where the values are; what is written stands around it
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };
std::string Text(double x, double y, Anchor anchor, std::string_view text);
std::string Title(double x, double y, std::string_view text);
std::string GridLine(double x1, double y1, double x2, double y2);
// Names below and left of the frame.
std::string AxisNames(const Frame& frame, std::string_view x_name, std::string_view y_name);

// 1, 2 or 5 times a power of ten: some five of them make up `range`. Precondition: range > 0.
double RoundStep(double range);

// A value for the edge of an axis: 1500 -> "1500", 0.05 -> "0.05".
std::string Number(double value);
// "10³"
std::string PowerOfTen(int power);

std::string Open(double width, double height, std::string_view title);  // ends with the style
std::string Close();

}  // namespace ashlar::plot
