// The figures of codecs as a table for people: on the terminal, and in a document.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "eval/codec_quality.h"

namespace ashlar::eval {

// Columns aligned by spaces, a line of names first; the same columns, and the same numbers, as
// MarkdownTable.
std::string TerminalTable(std::span<const CodecQuality> codecs);
std::string MarkdownTable(std::span<const CodecQuality> codecs);

// Mean KL against bytes per token. Specs that are one codec's name are one series, all others
// (presets, K and V apart) the other.
std::string QualityPlot(std::span<const CodecQuality> codecs, std::string_view title);

}  // namespace ashlar::eval
