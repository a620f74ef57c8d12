// Made-up traffic: conversations that begin by chance, each of one or more turns. A request's
// prompt is
//
//   prefix (one of `prefixes`) | document (one of `documents`, some far more popular) |
//   all turns before, with their outputs | what the turn adds
//
// and its blocks have ids, in blocks of kBlockTokens, to which all lengths are rounded. The same
// options give the same requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "trace/request.h"

namespace ashlar::simulate {

struct LengthRange {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};

struct SyntheticOptions {
  static constexpr std::uint64_t kBlockTokens = 16;  // of a hash id

  std::uint64_t requests = 1000;  // in all; the last conversations may be cut
  double conversations_per_s = 1;
  std::uint64_t prefix_tokens = 0;
  std::uint64_t prefixes = 1;
  std::uint64_t documents = 0;  // 0: none
  std::uint64_t document_tokens = 0;
  LengthRange prompt_tokens = {64, 256};  // of a first turn, behind prefix and document
  LengthRange turns = {1, 1};
  LengthRange turn_tokens = {32, 128};  // that later turns add
  LengthRange output_tokens = {32, 256};
  double pause_s = 10;  // between a turn's arrival and the next one's, on average
  std::uint64_t seed = 0;
};

// "shared-prompt": one system prompt, single questions. "chat": several turns. "rag": long
// documents, some of them popular. "agent": many quick turns behind long instructions. Errors:
// kInvalidArgument listing these.
Result<SyntheticOptions> SyntheticPreset(std::string_view name);

// Errors: kInvalidArgument naming what is out of range.
Status Validate(const SyntheticOptions& options);

// In memory for the conversations that are open at a time. Precondition: valid.
std::unique_ptr<trace::Source> MakeSynthetic(const SyntheticOptions& options);

}  // namespace ashlar::simulate
