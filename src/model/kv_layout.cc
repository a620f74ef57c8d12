#include "model/kv_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace ashlar::model {
namespace {

struct Kind {
  std::string_view name;
  bool has_window;
  bool is_edge;
};
constexpr std::array<Kind, 4> kKinds = {{{"full", false, false},
                                         {"sliding", true, false},
                                         {"edge", false, true},
                                         {"sliding edge", true, true}}};

class LayoutBuilder {
 public:
  LayoutBuilder(std::span<const LayerKv> layers, const KvCodecSpec& spec,
                std::uint32_t block_tokens)
      : layers_(layers), spec_(spec), layout_{.block_tokens = block_tokens, .groups = {}} {}

  kv::KvLayoutSpec Build() {
    for (const Kind& kind : kKinds) AddKind(kind);
    for (std::uint32_t layer = 0; layer < layers_.size(); ++layer) {
      const std::optional<std::uint32_t> source = layers_[layer].source_layer;
      if (source) layout_.shared_layers.push_back({.layer = layer, .source_layer = *source});
    }
    return std::move(layout_);
  }

 private:
  bool IsOf(const Kind& kind, std::uint32_t layer) const {
    const bool has_window = layers_[layer].window > 0;
    const bool is_at_end =
        layer < spec_.edge_layers || std::uint64_t{layer} + spec_.edge_layers >= layers_.size();
    const bool is_edge =
        is_at_end && spec_.edge != spec_.full && !(has_window && spec_.sliding.has_value());
    return has_window == kind.has_window && is_edge == kind.is_edge;
  }

  void AddKind(const Kind& kind) {
    const std::size_t first = layout_.groups.size();
    const CodecPair codecs = kind.is_edge      ? spec_.edge
                             : kind.has_window ? spec_.sliding.value_or(spec_.full)
                                               : spec_.full;
    for (std::uint32_t layer = 0; layer < layers_.size(); ++layer) {
      const LayerKv& kv = layers_[layer];
      if (kv.kv_heads == 0 || !IsOf(kind, layer)) continue;
      auto group = std::find_if(layout_.groups.begin() + static_cast<std::ptrdiff_t>(first),
                                layout_.groups.end(), [&](const kv::LaneGroupSpec& other) {
                                  return other.key_dim == kv.key_dim &&
                                         other.value_dim == kv.value_dim &&
                                         other.window == kv.window && other.sinks == kv.sinks;
                                });
      if (group == layout_.groups.end()) {
        const std::size_t number = layout_.groups.size() - first + 1;
        group = layout_.groups.insert(
            group,
            {.name = number == 1 ? std::string(kind.name) : fmt::format("{} {}", kind.name, number),
             .lanes = {},
             .key_dim = kv.key_dim,
             .value_dim = kv.value_dim,
             .key_codec = codecs.key,
             .value_codec = codecs.value,
             .window = kv.window,
             .sinks = kv.sinks});
      }
      const std::vector<kv::LaneId> lanes = kv::LanesOf(std::span(&layer, 1), kv.kv_heads);
      group->lanes.insert(group->lanes.end(), lanes.begin(), lanes.end());
    }
  }

  std::span<const LayerKv> layers_;
  const KvCodecSpec& spec_;
  kv::KvLayoutSpec layout_;
};

}  // namespace

std::vector<LayerKv> LayersKvOf(const ModelConfig& config) {
  std::vector<LayerKv> layers(config.layers, {.kv_heads = config.kv_heads,
                                              .key_dim = config.head_dim,
                                              .value_dim = config.latent ? 0 : config.head_dim});
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].window = config.LayerAt(i).window;
  return layers;
}

Result<kv::KvLayout> KvLayoutOf(std::span<const LayerKv> layers, const KvCodecSpec& spec,
                                std::uint32_t block_tokens) {
  const bool has_windows = std::ranges::any_of(
      layers, [](const LayerKv& layer) { return layer.kv_heads > 0 && layer.window > 0; });
  if (spec.sliding && !has_windows) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV codec '{}': this model has no layers with a sliding window; leave out "
                     "sliding=",
                     spec.name);
  }
  return kv::KvLayout::Create(LayoutBuilder(layers, spec, block_tokens).Build());
}

Result<kv::KvLayout> KvLayoutOf(const ModelConfig& config, const KvCodecSpec& spec,
                                std::uint32_t block_tokens) {
  return KvLayoutOf(LayersKvOf(config), spec, block_tokens);
}

}  // namespace ashlar::model
