#include "simulate/block_trace.h"

#include <algorithm>

#include "simulate/tokens.h"

namespace ashlar::simulate {
namespace {

constexpr TokenId kEnd = -1;  // in no block of a trace

}  // namespace

void BlockTrace::Read(const trace::Request& request) {
  static_assert(kIdBlockTokens == kIdTokens);
  has_ids_ = !request.hash_ids.empty();
  input_tokens_ = request.input_tokens;
  output_tokens_ = request.output_tokens;
  if (has_ids_) {
    tokens_.clear();
    for (const std::uint64_t id : request.hash_ids) AppendId(id, tokens_);
    const std::uint64_t blocks =
        (request.input_tokens + options_.hash_block_tokens - 1) / options_.hash_block_tokens;
    prompt_tokens_ = std::min<std::uint64_t>(blocks, request.hash_ids.size()) * kIdTokens + 1;
  } else {
    MakeTokens(request, number_, options_.hash_block_tokens, tokens_);
    prompt_tokens_ = request.input_tokens + 1;
  }
  tokens_.push_back(kEnd);
  ++number_;
}

std::uint64_t BlockTrace::Count(std::uint64_t hit, Results& results) const {
  const std::uint64_t whole = hit / block_tokens();
  ++results.requests;
  results.prompt_tokens += input_tokens_;
  results.output_tokens += output_tokens_;
  results.blocks_total += (prompt_tokens_ - 1 + block_tokens() - 1) / block_tokens();
  results.blocks_hit += whole;
  const std::uint64_t hit_tokens =
      has_ids_ ? std::min(whole * options_.hash_block_tokens, input_tokens_) : hit;
  results.hit_tokens += hit_tokens;
  return input_tokens_ - hit_tokens;
}

}  // namespace ashlar::simulate
