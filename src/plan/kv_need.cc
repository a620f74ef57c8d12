#include "plan/kv_need.h"

#include <set>

namespace ashlar::plan {
namespace {

__extension__ using Wide = unsigned __int128;

GroupNeed NeedOf(const kv::LaneGroup& group) {
  const kv::LaneGroupSpec& spec = group.spec();
  std::set<std::uint32_t> layers;
  for (const kv::LaneId& lane : spec.lanes) layers.insert(lane.layer);
  return {.name = spec.name,
          .layers = static_cast<std::uint32_t>(layers.size()),
          .lanes = spec.lanes.size(),
          .key_dim = spec.key_dim,
          .value_dim = spec.value_dim,
          .key_codec = NameOf(spec.key_codec),
          .value_codec = spec.value_dim > 0 ? NameOf(spec.value_codec) : "",
          .window = spec.window,
          .key_tile_bytes = group.key_tile_bytes(),
          .value_tile_bytes = group.value_tile_bytes(),
          .block_bytes = group.block_bytes(),
          .bytes_per_token = group.bytes_per_token(),
          .open_block_bytes = group.open_block_bytes()};
}

Status CheckSize(const kv::KvLayout& layout, const Workload& workload) {
  // A block more than the tokens need, and one that is open: never less than what is taken.
  Wide per_sequence = 0;
  for (const kv::StoreGroup& group : layout.store_groups()) {
    per_sequence +=
        Wide{group.block_bytes} * (group.is_open ? 1 : layout.BlocksNeeded(workload.context) + 1);
  }
  if (per_sequence * workload.sequences <= kMaxKvBytes) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} sequence{} of {} tokens at {} bytes a token take more than 2^60 bytes: no "
                   "machine has that; ask for fewer",
                   workload.sequences, workload.sequences == 1 ? "" : "s", workload.context,
                   layout.bytes_per_token());
}

}  // namespace

Result<kv::KvLayout> LayoutOf(const Geometry& geometry, const model::KvCodecSpec& codec,
                              std::uint32_t block_tokens) {
  ASHLAR_ASSIGN(kv::KvLayout layout, model::KvLayoutOf(geometry.layers, codec, block_tokens));
  for (const kv::LaneGroup& group : layout.groups()) {
    const KvCodecKind kind = group.spec().key_codec.kind;
    if (group.spec().value_dim == 0 && (kind == KvCodecKind::kKc4 || kind == KvCodecKind::kKc2)) {
      return MakeError(ErrorCode::kUnsupported,
                       "KV codec '{}': values are read from this model's latents, which {} does "
                       "not allow",
                       codec.name, NameOf(kind));
    }
  }
  return layout;
}

Status Validate(const Workload& workload) {
  if (workload.context == 0 || workload.context > kMaxContext) {
    return MakeError(ErrorCode::kInvalidArgument, "a context of {} tokens; it must be 1 to {}",
                     workload.context, kMaxContext);
  }
  if (workload.sequences == 0 || workload.sequences > kMaxSequences) {
    return MakeError(ErrorCode::kInvalidArgument, "{} sequences; it must be 1 to {}",
                     workload.sequences, kMaxSequences);
  }
  if (workload.chunk == 0 || workload.chunk > kMaxContext) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a prefill chunk of {} tokens; it must be 1 to {}", workload.chunk,
                     kMaxContext);
  }
  return {};
}

Result<KvNeed> KvNeedOf(const kv::KvLayout& layout, const Workload& workload) {
  ASHLAR_TRY(Validate(workload));
  ASHLAR_TRY(CheckSize(layout, workload));
  std::vector<std::uint64_t> peak;
  std::vector<std::uint64_t> held;
  layout.PeakBlocks({.tokens = workload.context, .chunk = workload.chunk}, peak);
  layout.HeldBlocks(workload.context, held);
  KvNeed need = {.groups = {},
                 .block_tokens = layout.block_tokens(),
                 .bytes_per_token = layout.bytes_per_token(),
                 .bytes_per_sequence = layout.BytesOf(peak),
                 .held_bytes = layout.BytesOf(held)};
  need.total_bytes = need.bytes_per_sequence * workload.sequences;
  for (std::size_t s = 0; s < layout.store_groups().size(); ++s) {
    const kv::StoreGroup& store = layout.store_groups()[s];
    if (store.is_open) {
      need.groups[store.lane_group].open_blocks = peak[s];
      continue;
    }
    need.groups.push_back(NeedOf(layout.group(store.lane_group)));
    GroupNeed& group = need.groups.back();
    group.peak_blocks = peak[s];
    group.held_blocks = held[s];
    need.elements_per_token += group.lanes * (std::uint64_t{group.key_dim} + group.value_dim);
  }
  return need;
}

}  // namespace ashlar::plan
