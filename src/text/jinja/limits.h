// What a template may cost. Every bound has a name, a default and a test at the limit and one above
// it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ashlar::text::jinja {

// The longest template we know of in public model files is 18 KiB.
inline constexpr std::size_t kMaxSourceBytes = 256 * 1024;
// Depth of the syntax tree: brackets in brackets, blocks in blocks, and terms of one long `a + b +
// ...`.
inline constexpr int kMaxNesting = 200;
// Depth of the evaluation: one macro calling another adds the nesting of both. The stack this takes
// is measured by a test (evaluator_test.cc): under 1 MiB in release builds.
inline constexpr int kMaxEvaluationDepth = 1000;
// Lists in lists, iterators over iterators.
inline constexpr int kMaxValueDepth = 128;
// Nodes evaluated, items visited, and kBytesPerStep bytes copied are a step each; about a second of
// work.
inline constexpr std::uint64_t kMaxSteps = 20'000'000;
inline constexpr std::size_t kBytesPerStep = 128;
// The rendered prompt, and any one string made on the way.
inline constexpr std::size_t kMaxStringBytes = 32u << 20;
// All strings, lists and dicts alive at one moment.
inline constexpr std::size_t kMaxLiveBytes = 256u << 20;
// Items of a range(), as in the reference's sandbox.
inline constexpr std::int64_t kMaxRangeItems = 100'000;

// The bounds of one parse and render; tests and the fuzzer use smaller ones.
struct Limits {
  std::size_t source_bytes = kMaxSourceBytes;
  int nesting = kMaxNesting;
  int evaluation_depth = kMaxEvaluationDepth;
  int value_depth = kMaxValueDepth;
  std::uint64_t steps = kMaxSteps;
  std::size_t string_bytes = kMaxStringBytes;
  std::size_t live_bytes = kMaxLiveBytes;
};

}  // namespace ashlar::text::jinja
