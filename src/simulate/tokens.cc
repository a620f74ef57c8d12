#include "simulate/tokens.h"

#include <algorithm>

#include "base/rng.h"

namespace ashlar::simulate {
namespace {

constexpr std::uint64_t kBlockStream = 0x626C6F636B;     // tokens of a hash block
constexpr std::uint64_t kUniqueStream = 0x756E69717565;  // tokens of one request only
constexpr std::uint64_t kScopeSeed = 0x6E616D6573;

constexpr TokenId ToToken(std::uint64_t bits) { return static_cast<TokenId>(bits >> 33); }

}  // namespace

void MakeTokens(const trace::Request& request, std::uint64_t number, std::uint64_t block_tokens,
                std::vector<TokenId>& tokens) {
  const std::uint64_t all = request.input_tokens + request.output_tokens;
  tokens.clear();
  tokens.reserve(all);
  for (const std::uint32_t name : request.prefixes) tokens.push_back(static_cast<TokenId>(name));
  for (const std::uint64_t id : request.hash_ids) {
    const std::uint64_t seed = MixBits(MixBits(kBlockStream) ^ id);
    const std::uint64_t count = std::min<std::uint64_t>(block_tokens, all - tokens.size());
    for (std::uint64_t i = 0; i < count; ++i) tokens.push_back(ToToken(MixBits(seed ^ i)));
  }
  // The last block of a prompt ends with it; its id says nothing of the output.
  const bool has_output_ids =
      request.hash_ids.size() * block_tokens > request.input_tokens &&
      request.hash_ids.size() > (request.input_tokens - 1) / block_tokens + 1;
  if (request.prefixes.empty() && !has_output_ids && tokens.size() > request.input_tokens) {
    tokens.resize(request.input_tokens);
  }
  const std::uint64_t seed = MixBits(MixBits(kUniqueStream) ^ number);
  for (std::uint64_t i = tokens.size(); i < all; ++i) tokens.push_back(ToToken(MixBits(seed ^ i)));
}

void AppendId(std::uint64_t id, std::vector<TokenId>& tokens) {
  // The first one tells most ids apart, the others all.
  tokens.push_back(ToToken(MixBits(id)));
  for (std::uint32_t shift = 0; shift < 5 * (kIdTokens - 1); shift += 5) {
    tokens.push_back(shift < 64 ? static_cast<TokenId>((id >> shift) & 0x1F) : 0);
  }
}

void NameBlocks(const std::vector<TokenId>& tokens, std::uint32_t block_tokens,
                std::vector<std::uint64_t>& names) {
  names.clear();
  std::uint64_t name = kScopeSeed;
  for (std::size_t i = 0; i + block_tokens <= tokens.size(); i += block_tokens) {
    for (std::size_t j = i; j < i + block_tokens; ++j) {
      name = MixBits(name ^ static_cast<std::uint64_t>(tokens[j]));
    }
    names.push_back(name);
  }
}

}  // namespace ashlar::simulate
