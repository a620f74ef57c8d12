// Things that begin and end, one row each: when was what under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ashlar::plot {

enum class Colour : std::uint8_t { kFirst, kSecond, kThird, kFourth };

struct SpanPiece {
  double begin_s = 0;
  double end_s = 0;
  Colour colour = Colour::kFirst;
};

using SpanRow = std::vector<SpanPiece>;

struct SpanText {
  std::string title;
  std::string y_name;
  std::vector<std::string> colours;  // what the first ones mean
};

inline constexpr std::size_t kMaxSpanRows = 500;  // of more, evenly chosen ones are drawn

// A whole SVG document: time in seconds from 0 to the right, rows from above. Pieces that are not
// finite, begin below 0 or end before they begin are left out.
std::string SpanChart(std::span<const SpanRow> rows, const SpanText& text);

}  // namespace ashlar::plot
