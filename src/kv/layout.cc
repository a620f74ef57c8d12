#include "kv/layout.h"

#include <bit>

namespace ashlar::kv {
namespace {

Error Bad(std::string_view field, std::uint64_t value, std::string_view right) {
  return MakeError(ErrorCode::kInvalidArgument, "KV layout: {} is {}; it must be {}", field, value,
                   right);
}

}  // namespace

Result<KvLayout> KvLayout::Create(const LaneGroupSpec& spec) {
  if (spec.layers == 0 || spec.layers > 4096) return Bad("layers", spec.layers, "1 to 4096");
  if (spec.kv_heads == 0 || spec.kv_heads > 4096)
    return Bad("kv heads", spec.kv_heads, "1 to 4096");
  if (spec.head_dim == 0 || spec.head_dim % 8 != 0 || spec.head_dim > 512) {
    return Bad("head dim", spec.head_dim, "a multiple of 8 up to 512");
  }
  if (!std::has_single_bit(spec.block_tokens) || spec.block_tokens < 16 ||
      spec.block_tokens > 256) {
    return Bad("block tokens", spec.block_tokens, "16, 32, 64, 128 or 256");
  }
  if (spec.codec != DType::kF32 && spec.codec != DType::kF16 && spec.codec != DType::kBF16) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV layout: codec {} is not one of f32, f16, bf16", NameOf(spec.codec));
  }
  return KvLayout(spec);
}

KvLayout::KvLayout(const LaneGroupSpec& spec) : spec_(spec) {
  tile_bytes_ = std::size_t{spec.head_dim} * spec.block_tokens * InfoOf(spec.codec).block_bytes;
  block_bytes_ = 2 * tile_bytes_ * spec.layers * spec.kv_heads;
}

}  // namespace ashlar::kv
