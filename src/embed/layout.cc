#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "ashlar/kv_layout.h"
#include "embed/convert.h"

namespace ashlar::cache {
namespace {

std::optional<KvCodec> ToCodec(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return KvCodec{.kind = KvCodecKind::kF32};
    case ElementType::kF16:
      return KvCodec{.kind = KvCodecKind::kF16};
    case ElementType::kBF16:
      return KvCodec{.kind = KvCodecKind::kBF16};
  }
  return std::nullopt;
}

Expected<kv::LaneGroupSpec> ToSpec(const LaneGroup& group) {
  using internal::Fail;
  for (const auto& [field, value] : {std::pair{"window", group.window}, {"sinks", group.sinks}}) {
    if (value > kMaxTokens) {
      return Fail(ErrorCode::kInvalidArgument,
                  "KV layout: group '{}': {} of {} tokens; it must be at most {}", group.name,
                  field, value, kMaxTokens);
    }
  }
  const std::optional<KvCodec> key = ToCodec(group.key_type);
  const std::optional<KvCodec> value = ToCodec(group.value_type);
  if (!key || !value) {
    return Fail(ErrorCode::kInvalidArgument,
                "KV layout: group '{}': element types {} and {}; they must be kF32, kF16 or kBF16",
                group.name, static_cast<int>(group.key_type), static_cast<int>(group.value_type));
  }
  if (group.granularity != Granularity::kToken && group.granularity != Granularity::kBlock) {
    return Fail(ErrorCode::kInvalidArgument,
                "KV layout: group '{}': granularity {}; it must be kToken or kBlock", group.name,
                static_cast<int>(group.granularity));
  }
  kv::LaneGroupSpec spec{.name = group.name,
                         .key_dim = group.key_dim,
                         .value_dim = group.value_dim,
                         .key_codec = *key,
                         .value_codec = *value,
                         .window = group.window,
                         .sinks = group.sinks,
                         .shares_tokens = group.granularity == Granularity::kToken};
  spec.lanes.reserve(group.lanes.size());
  for (const Lane& lane : group.lanes) {
    spec.lanes.push_back({.model = lane.model, .layer = lane.layer, .head = lane.head});
  }
  return spec;
}

// Lanes that the shared layers will lead to: what makes Create's work.
std::uint64_t SharedLanes(const Layout& layout) {
  std::uint64_t total = 0;
  for (const SharedLayer& shared : layout.shared_layers) {
    for (const LaneGroup& group : layout.groups) {
      total += static_cast<std::uint64_t>(
          std::ranges::count_if(group.lanes, [&shared](const Lane& lane) {
            return lane.model == shared.model && lane.layer == shared.source_layer;
          }));
    }
    if (total > kMaxSharedLanes) break;
  }
  return total;
}

}  // namespace

std::vector<Lane> LanesOf(std::span<const std::uint32_t> layers, std::uint32_t kv_heads,
                          std::uint32_t model) {
  std::vector<Lane> lanes;
  for (const std::uint32_t layer : layers) {
    for (std::uint32_t head = 0; head < kv_heads && lanes.size() <= kMaxLanes; ++head) {
      lanes.push_back({.model = model, .layer = layer, .head = head});
    }
    if (lanes.size() > kMaxLanes || kv_heads == 0) break;
  }
  return lanes;
}

std::vector<Lane> LanesOf(LayerRange layers, std::uint32_t kv_heads, std::uint32_t model) {
  const std::uint32_t step = std::max(layers.step, 1u);
  const std::uint64_t count = std::min<std::uint64_t>(layers.count, kMaxLanes + 1);
  std::vector<std::uint32_t> numbers(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    // Beyond the last number all are the last, which Cache::Create refuses as a lane given twice.
    numbers[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        layers.first + i * step, std::numeric_limits<std::uint32_t>::max()));
  }
  return LanesOf(numbers, kv_heads, model);
}

namespace internal {

Expected<kv::KvLayout> ToKv(const Layout& layout) {
  std::uint64_t lanes = 0;
  for (const LaneGroup& group : layout.groups) lanes += group.lanes.size();
  if (lanes > kMaxLanes || layout.groups.size() > kMaxGroups) {
    return Fail(ErrorCode::kInvalidArgument,
                "KV layout: {} groups of {} lanes; at most {} groups and {} lanes are possible",
                layout.groups.size(), lanes, kMaxGroups, kMaxLanes);
  }
  // The first bound keeps the count itself short.
  if (layout.shared_layers.size() > kMaxSharedLanes / 16 || SharedLanes(layout) > kMaxSharedLanes) {
    return Fail(ErrorCode::kInvalidArgument,
                "KV layout: {} shared layers; at most {} layers and {} lanes can be shared",
                layout.shared_layers.size(), kMaxSharedLanes / 16, kMaxSharedLanes);
  }
  kv::KvLayoutSpec spec{.block_tokens = layout.block_tokens};
  for (const LaneGroup& group : layout.groups) {
    Expected<kv::LaneGroupSpec> converted = ToSpec(group);
    if (!converted) return converted.error();
    spec.groups.push_back(std::move(*converted));
  }
  for (const SharedLayer& shared : layout.shared_layers) {
    spec.shared_layers.push_back(
        {.model = shared.model, .layer = shared.layer, .source_layer = shared.source_layer});
  }
  Result<kv::KvLayout> made = kv::KvLayout::Create(std::move(spec));
  if (!made.ok()) return FromKv(std::move(made).error());
  return std::move(made).value();
}

}  // namespace internal
}  // namespace ashlar::cache
