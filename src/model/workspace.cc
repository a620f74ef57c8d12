#include "model/workspace.h"

#include <algorithm>

#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/kernel_set.h"
#include "model/attention_work.h"

namespace ashlar::model {
namespace {

// Partial states: 32 MiB hold those of 119,000 rows of 64 channels.
constexpr std::size_t kPartialFloats = std::size_t{1} << 23;

constexpr std::size_t RoundUp(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Products of one input that may each want it in an order of their own: Q, K and V.
constexpr std::size_t kMostOrders = 3;

// The most columns of a token that are encoded for one parallel region.
std::size_t ActivationColumns(const ModelConfig& config) {
  const std::size_t heads = config.heads;
  std::size_t columns =
      std::max<std::size_t>({config.hidden, heads * config.attended_dim(), config.feed_forward});
  if (const auto& latent = config.latent) {
    columns = std::max<std::size_t>({columns, latent->query_rank, heads * latent->rank,
                                     heads * latent->plain_dim, heads * latent->value_dim});
  }
  if (const auto& experts = config.experts) {
    columns =
        std::max<std::size_t>({columns, experts->shared, experts->used * std::size_t{config.hidden},
                               experts->used * std::size_t{experts->feed_forward}});
  }
  return columns;
}

}  // namespace

AttentionSizes AttentionSizes::Of(const ModelConfig& config, const kv::KvLayout& layout,
                                  std::size_t max_tokens, std::size_t threads) {
  const std::size_t kv_heads = config.kv_heads;
  const std::size_t head_dim = config.head_dim;
  AttentionSizes sizes = {.query_floats = kv_heads * max_tokens * config.group() * head_dim,
                          .partial_floats = kPartialFloats};
  for (const kv::LaneGroup& group : layout.groups()) {
    const std::size_t open_bytes = group.open_key_tile_bytes() + group.open_value_tile_bytes();
    sizes.prepared_stride = std::max(
        sizes.prepared_stride, kernels::PreparedBytes(group.spec().key_codec.kind, 1, head_dim));
    sizes.kept_tile_bytes = std::max(sizes.kept_tile_bytes, open_bytes);
    sizes.path_block_bytes = std::max(
        sizes.path_block_bytes, open_bytes + group.key_tile_bytes() + group.value_tile_bytes());
  }
  sizes.prepared_bytes = kv_heads * max_tokens * config.group() * sizes.prepared_stride;
  // A chunk of two tokens may touch two blocks; more than half as many blocks as tokens never lie
  // outside the open ones.
  sizes.kept_bytes = (max_tokens / 2 + 1) * kv_heads * sizes.kept_tile_bytes;
  // A path of n tokens fills at most 1 + (n - 1) / block_tokens blocks and lies in one more.
  sizes.path_bytes = sizes.path_block_bytes * ((kMaxTreeTokens - 1) / layout.block_tokens() + 2);
  sizes.all_path_bytes = sizes.path_bytes * threads;
  const std::size_t state_floats = kMaxItemRows * (config.attended_dim() + 2);
  sizes.scratch_floats = RoundUp(kMaxItemRows * head_dim, 16) +
                         RoundUp(kMaxItemRows * sizes.prepared_stride / sizeof(float), 16) +
                         3 * RoundUp(state_floats, 16) + kMaxItemRows * kernels::kSegmentTokens +
                         RoundUp(kernels::kAttendScratchFloats, 16);
  sizes.all_scratch_floats = sizes.scratch_floats * threads;
  return sizes;
}

std::uint64_t AttentionSizes::bytes() const {
  return (query_floats + all_scratch_floats + partial_floats) * sizeof(float) + prepared_bytes +
         kept_bytes + all_path_bytes;
}

ForwardSizes ForwardSizes::Of(const ModelConfig& config, const kv::KvLayout& layout,
                              std::size_t max_tokens, std::size_t threads,
                              Activations activations) {
  const std::size_t heads = config.heads;
  const std::size_t keys = max_tokens * config.kv_heads * config.head_dim;
  ForwardSizes sizes = {.logit_rows = std::min(max_tokens, kLogitRows),
                        .hidden = max_tokens * config.hidden,
                        .queries = max_tokens * heads * config.head_dim,
                        .keys = keys,
                        .values = config.latent ? 0 : keys,
                        .attended = max_tokens * heads * config.attended_dim(),
                        .angles = max_tokens * config.ropes.size() * config.rope_dims / 2,
                        .attention = AttentionSizes::Of(config, layout, max_tokens, threads)};
  sizes.logits = sizes.logit_rows * config.vocab;
  std::size_t widest = std::max<std::size_t>(config.hidden, heads * config.head_dim);
  std::size_t feed_forward = config.feed_forward;
  if (const auto& latent = config.latent) {
    sizes.wide_queries = max_tokens * heads * (latent->plain_dim + config.rope_dims);
    sizes.low_queries = max_tokens * latent->query_rank;
    sizes.latent_values = max_tokens * heads * latent->value_dim;
    widest = std::max<std::size_t>({widest, latent->query_rank, heads * latent->value_dim});
  }
  if (const auto& experts = config.experts) {
    sizes.expert_rows = max_tokens * experts->used;
    sizes.router = max_tokens * experts->count;
    sizes.expert_hidden = sizes.expert_rows * config.hidden;
    sizes.expert_wide = sizes.expert_rows * experts->feed_forward;
    sizes.shared_out = experts->shared > 0 ? max_tokens * config.hidden : 0;
    feed_forward = std::max<std::size_t>(feed_forward, experts->shared);
    widest = std::max<std::size_t>(widest, experts->feed_forward);
  }
  sizes.up = max_tokens * feed_forward;
  sizes.gate = config.is_gated ? sizes.up : 0;
  // Rounded so that every worker's part starts on a 64-byte border.
  sizes.scratch = RoundUp(kernels::MatmulScratchFloats(std::max(widest, feed_forward)), 16);
  sizes.all_scratch = sizes.scratch * threads;
  const std::size_t columns =
      ActivationColumns(config) * (config.has_column_orders ? kMostOrders : 1);
  if (config.has_column_orders) sizes.gathered = max_tokens * columns;
  if (activations == Activations::kInt8) {
    sizes.activation_blocks = max_tokens * columns / kernels::kActivationColumns;
  }
  return sizes;
}

std::uint64_t ForwardSizes::bytes() const {
  const std::uint64_t floats = 3 * hidden + queries + keys + values + attended + gate + up +
                               2 * angles + logits + wide_queries + low_queries + latent_values +
                               router + 2 * expert_hidden + 2 * expert_wide + shared_out +
                               gathered + all_scratch;
  return floats * sizeof(float) + activation_blocks * sizeof(kernels::ActivationBlock) +
         attention.bytes();
}

}  // namespace ashlar::model
