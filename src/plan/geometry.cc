#include "plan/geometry.h"

#include <fmt/format.h>

#include <utility>

#include "base/byte_size.h"

namespace ashlar::plan {

std::optional<model::LayerKv> UniformLayer(const Geometry& geometry) {
  std::optional<model::LayerKv> uniform;
  for (const model::LayerKv& layer : geometry.layers) {
    if (layer.kv_heads == 0) continue;
    if (!uniform) uniform = layer;
    if (layer.kv_heads != uniform->kv_heads || layer.key_dim != uniform->key_dim ||
        layer.value_dim != uniform->value_dim) {
      return std::nullopt;
    }
  }
  return uniform;
}

namespace {

std::string DescribeAttention(const Geometry& g) {
  if (g.latent) {
    return fmt::format("{} query heads over one latent of {} + {} (MLA)", g.heads,
                       g.latent->kv_rank, g.latent->rope_dim);
  }
  const std::optional<model::LayerKv> layer = UniformLayer(g);
  if (!layer) return fmt::format("{} query heads, kv heads that differ by layer", g.heads);
  const char* const kind = layer->kv_heads == g.heads ? "MHA"
                           : layer->kv_heads == 1     ? "MQA"
                                                      : "GQA";
  std::string dims = fmt::format("{}", layer->key_dim);
  if (layer->value_dim != layer->key_dim) dims += fmt::format(" and {}", layer->value_dim);
  return fmt::format("{} query heads over {} kv head{} of {} ({})", g.heads, layer->kv_heads,
                     layer->kv_heads == 1 ? "" : "s", dims, kind);
}

}  // namespace

std::vector<std::string> Describe(const Geometry& g) {
  std::string attention = fmt::format("{} layers, {}", g.layers.size(), DescribeAttention(g));
  if (g.context > 0) attention += fmt::format(", context {}", FormatWithCommas(g.context));
  std::string width = fmt::format("hidden {}, feed forward {}, vocabulary {}{}",
                                  FormatWithCommas(g.hidden), FormatWithCommas(g.feed_forward),
                                  FormatWithCommas(g.vocab), g.is_tied ? " (tied)" : "");
  if (g.experts) {
    width +=
        fmt::format(", {} experts of {}", g.experts->count, FormatWithCommas(g.experts->width));
    if (g.experts->active > 0) width += fmt::format(" ({} a token)", g.experts->active);
  }
  return {std::move(attention), std::move(width)};
}

}  // namespace ashlar::plan
