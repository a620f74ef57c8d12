#include "kv/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace ashlar::kv {
namespace {

constexpr std::uint32_t kMaxDim = 1024;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << 40;

Error Bad(const LaneGroupSpec& group, std::string_view field, std::uint64_t value,
          std::string_view right) {
  return MakeError(ErrorCode::kInvalidArgument, "KV layout: group '{}': {} is {}; it must be {}",
                   group.name, field, value, right);
}

bool Exists(KvCodec codec) {
  return static_cast<std::size_t>(codec.kind) < AllKvCodecKinds().size() &&
         !(codec.is_rotated && IsRaw(codec));
}

Status Validate(const LaneGroupSpec& group) {
  if (group.name.empty() || group.name.size() > kMaxNameBytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV layout: a group's name has {} characters; it must have 1 to {}",
                     group.name.size(), kMaxNameBytes);
  }
  if (group.lanes.empty() || group.lanes.size() > kMaxLanes) {
    return Bad(group, "the number of lanes (layers times kv heads)", group.lanes.size(),
               "1 to 65536");
  }
  if (group.key_dim == 0 || group.key_dim % 8 != 0 || group.key_dim > kMaxDim) {
    return Bad(group, "key dim", group.key_dim, "a multiple of 8 up to 1024");
  }
  if (group.value_dim % 8 != 0 || group.value_dim > kMaxDim) {
    return Bad(group, "value dim", group.value_dim, "a multiple of 8 up to 1024, or 0");
  }
  for (const KvCodec codec : {group.key_codec, group.value_codec}) {
    if (!Exists(codec)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "KV layout: group '{}': codec {}{} does not exist; kinds go to {}, and one "
                       "that is a plain float cannot be rotated",
                       group.name, static_cast<int>(codec.kind), codec.is_rotated ? " rotated" : "",
                       AllKvCodecKinds().size() - 1);
    }
  }
  if (group.window > kMaxWindow) {
    return Bad(group, "window", group.window, "2^40 tokens or less");
  }
  if (group.sinks > kMaxWindow) return Bad(group, "sinks", group.sinks, "2^40 tokens or less");
  if (group.sinks > 0 && group.window == 0) {
    return Bad(group, "sinks", group.sinks, "0 without a window: every token stays then");
  }
  return {};
}

}  // namespace

std::vector<LaneId> LanesOf(std::span<const std::uint32_t> layers, std::uint32_t kv_heads,
                            std::uint32_t model) {
  std::vector<LaneId> lanes;
  lanes.reserve(layers.size() * kv_heads);
  for (const std::uint32_t layer : layers) {
    for (std::uint32_t head = 0; head < kv_heads; ++head) {
      lanes.push_back({.model = model, .layer = layer, .head = head});
    }
  }
  return lanes;
}

std::vector<LaneId> LanesOfAllLayers(std::uint32_t layers, std::uint32_t kv_heads,
                                     std::uint32_t model) {
  std::vector<std::uint32_t> all(layers);
  for (std::uint32_t layer = 0; layer < layers; ++layer) all[layer] = layer;
  return LanesOf(all, kv_heads, model);
}

LaneGroup::LaneGroup(LaneGroupSpec spec, std::uint32_t block_tokens)
    : spec_(std::move(spec)),
      block_tokens_(block_tokens),
      key_tile_bytes_(TileBytes(spec_.key_codec, KvRole::kKey, spec_.key_dim, block_tokens)),
      value_tile_bytes_(
          TileBytes(spec_.value_codec, KvRole::kValue, spec_.value_dim, block_tokens)),
      block_bytes_((key_tile_bytes_ + value_tile_bytes_) * spec_.lanes.size()),
      sink_blocks_((spec_.sinks + block_tokens - 1) / block_tokens) {
  if (IsRaw(spec_.key_codec) && (spec_.value_dim == 0 || IsRaw(spec_.value_codec))) return;
  open_key_tile_bytes_ =
      TileBytes({.kind = OpenKindOf(spec_.key_codec)}, KvRole::kKey, spec_.key_dim, block_tokens);
  open_value_tile_bytes_ = TileBytes({.kind = OpenKindOf(spec_.value_codec)}, KvRole::kValue,
                                     spec_.value_dim, block_tokens);
  open_block_bytes_ = (open_key_tile_bytes_ + open_value_tile_bytes_) * spec_.lanes.size();
}

std::uint64_t LaneGroup::FirstLiveBlock(std::uint64_t position) const {
  if (!has_window() || position < spec_.window) return 0;
  return (position - spec_.window + 1) / block_tokens_;
}

std::uint64_t LaneGroup::BlocksHeld(std::uint64_t position, std::uint64_t count) const {
  const std::uint64_t end = (position + count + block_tokens_ - 1) / block_tokens_;
  const std::uint64_t first = FirstLiveBlock(position);
  return first <= sink_blocks_ ? end : sink_blocks_ + (end - first);
}

std::uint64_t LaneGroup::PeakBlocks(std::uint64_t tokens, std::uint64_t chunk) const {
  const std::uint64_t all = (tokens + block_tokens_ - 1) / block_tokens_;
  if (!has_window() || tokens == 0) return all;
  // A piece of c tokens reads and writes the window - 1 + c tokens that end with it. They touch the
  // most blocks when the first of them is the last of its block; every such alignment occurs.
  const std::uint64_t span = spec_.window - 1 + std::min(chunk, tokens);
  const std::uint64_t most = span <= 1 ? 1 : (span - 2) / block_tokens_ + 2;
  return std::min(all, sink_blocks_ + most);
}

Result<KvLayout> KvLayout::Create(KvLayoutSpec spec) {
  if (!std::has_single_bit(spec.block_tokens) || spec.block_tokens < 16 ||
      spec.block_tokens > 256) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV layout: block tokens is {}; it must be 16, 32, 64, 128 or 256",
                     spec.block_tokens);
  }
  if (spec.groups.empty() || spec.groups.size() > kMaxGroups) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV layout: the number of lane groups is {}; it must be 1 to {}",
                     spec.groups.size(), kMaxGroups);
  }
  std::vector<LaneGroup> groups;
  groups.reserve(spec.groups.size());
  std::unordered_set<std::string_view> names;
  for (const LaneGroupSpec& group : spec.groups) {
    ASHLAR_TRY(Validate(group));
    if (!names.insert(group.name).second) {
      return MakeError(ErrorCode::kInvalidArgument, "KV layout: two groups are named '{}'",
                       group.name);
    }
    groups.push_back(LaneGroup(group, spec.block_tokens));
  }
  KvLayout layout(std::move(spec), std::move(groups));
  ASHLAR_TRY(layout.PlaceLanes());
  ASHLAR_TRY(layout.PlaceSharedLayers());
  return layout;
}

Status KvLayout::PlaceLanes() {
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    const LaneGroup& group = groups_[g];
    LanePlace place{.group = g};
    for (const LaneId& lane : group.spec().lanes) {
      place.value_offset = place.key_offset + group.key_tile_bytes();
      place.open_value_offset = place.open_key_offset + group.open_key_tile_bytes();
      if (!places_.emplace(lane, place).second) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "KV layout: group '{}': model {} layer {} kv head {} is in another group, "
                         "or twice in this one",
                         group.name(), lane.model, lane.layer, lane.head);
      }
      place.key_offset = place.value_offset + group.value_tile_bytes();
      place.open_key_offset = place.open_value_offset + group.open_value_tile_bytes();
    }
  }
  return {};
}

Status KvLayout::PlaceSharedLayers() {
  for (const SharedLayer& shared : spec_.shared_layers) {
    const LaneId source{.model = shared.model, .layer = shared.source_layer, .head = 0};
    if (!places_.contains(source)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "KV layout: layer {} shares the KV of layer {}, which has none of its own",
                       shared.layer, shared.source_layer);
    }
    for (std::uint32_t head = 0;; ++head) {
      const auto place = places_.find({shared.model, shared.source_layer, head});
      if (place == places_.end()) break;
      if (!places_.emplace(LaneId{shared.model, shared.layer, head}, place->second).second) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "KV layout: layer {} shares the KV of layer {} and has lanes of its own",
                         shared.layer, shared.source_layer);
      }
    }
  }
  return {};
}

KvLayout::KvLayout(KvLayoutSpec spec, std::vector<LaneGroup> groups)
    : spec_(std::move(spec)), groups_(std::move(groups)) {
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    store_groups_.push_back({.lane_group = g, .block_bytes = groups_[g].block_bytes()});
  }
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].is_encoded()) continue;
    store_groups_.push_back(
        {.lane_group = g, .is_open = true, .block_bytes = groups_[g].open_block_bytes()});
  }
}

std::uint64_t KvLayout::BytesOf(std::span<const std::uint64_t> blocks) const {
  std::uint64_t bytes = 0;
  for (std::size_t s = 0; s < blocks.size(); ++s) bytes += blocks[s] * store_groups_[s].block_bytes;
  return bytes;
}

void KvLayout::PeakBlocks(const SequenceReach& reach, std::vector<std::uint64_t>& blocks) const {
  blocks.assign(store_groups_.size(), OpenBlocks(reach.max_rollback));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    blocks[g] = groups_[g].PeakBlocks(reach.tokens, reach.chunk + reach.max_rollback);
    if (reach.max_rollback > 0) ++blocks[g];  // to copy the sealed block that is gone back into
  }
}

void KvLayout::HeldBlocks(std::uint64_t tokens, std::vector<std::uint64_t>& blocks) const {
  blocks.assign(store_groups_.size(), OpenBlocks(0));
  for (std::size_t g = 0; g < groups_.size(); ++g) blocks[g] = groups_[g].BlocksHeld(tokens, 0);
}

std::optional<LanePlace> KvLayout::Find(LaneId lane) const {
  const auto place = places_.find(lane);
  if (place == places_.end()) return std::nullopt;
  return place->second;
}

std::size_t KvLayout::bytes_per_token() const {
  std::size_t bytes = 0;
  for (const LaneGroup& group : groups_) bytes += group.bytes_per_token();
  return bytes;
}

std::string KvLayout::Fingerprint() const {
  std::string text = fmt::format("{}", spec_.block_tokens);
  for (const LaneGroup& group : groups_) {
    const LaneGroupSpec& spec = group.spec();
    text += fmt::format(";{}x{}+{},{}/{},w{}+{}{}:", spec.lanes.size(), spec.key_dim,
                        spec.value_dim, NameOf(spec.key_codec), NameOf(spec.value_codec),
                        spec.window, spec.sinks, group.shares_tokens() ? "" : ",sealed");
    for (const LaneId& lane : spec.lanes) {
      text += fmt::format("{}.{}.{},", lane.model, lane.layer, lane.head);
    }
  }
  for (const SharedLayer& shared : spec_.shared_layers) {
    text += fmt::format(";{}.{}<{}", shared.model, shared.layer, shared.source_layer);
  }
  return text;
}

}  // namespace ashlar::kv
