// Requests as the blocks of a cache without time: which of them are equal. Used by cache mode only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "simulate/cache_run.h"
#include "trace/request.h"

namespace ashlar::simulate {

class BlockTrace {
 public:
  explicit BlockTrace(const CacheRunOptions& options) : options_(options) {}

  // Takes the next request apart.
  void Read(const trace::Request& request);

  // Prompt, output, and one token more, which no block of the prompt is last with: so all of them
  // can be served.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  // Of them the prompt's, and that one.
  std::uint64_t prompt_tokens() const { return prompt_tokens_; }
  bool has_ids() const { return has_ids_; }
  // Of a block, in tokens().
  std::uint32_t block_tokens() const { return has_ids_ ? kIdBlockTokens : options_.block_tokens; }
  // Counts what was served of the prompt, `hit` of tokens(). The tokens that had to be computed.
  std::uint64_t Count(std::uint64_t hit, Results& results) const;

 private:
  static constexpr std::uint32_t kIdBlockTokens = 16;

  const CacheRunOptions options_;
  bool has_ids_ = false;
  std::uint64_t number_ = 0;
  std::uint64_t input_tokens_ = 0;
  std::uint64_t output_tokens_ = 0;
  std::uint64_t prompt_tokens_ = 0;
  std::vector<TokenId> tokens_;
};

}  // namespace ashlar::simulate
