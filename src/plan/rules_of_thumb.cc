#include "plan/rules_of_thumb.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/kv_codec.h"

namespace ashlar::plan {
namespace {

constexpr std::uint64_t kF16Bytes = 2;

std::string Number(std::uint64_t value) { return FormatWithCommas(value); }

class Rules {
 public:
  Rules(const Geometry& geometry, const KvNeed& need, const Workload& workload)
      : g_(geometry), need_(need), tokens_(workload.context) {
    has_window_ = std::ranges::any_of(need.groups, [](const auto& g) { return g.window > 0; });
  }

  std::vector<RuleOfThumb> All() {
    if (g_.latent) {
      AddLatent(*g_.latent);
    } else {
      AddHeads();
    }
    if (has_window_) {
      Add("windows ignored", need_.bytes_per_token,
          fmt::format("{} bytes a token, all of them kept", Number(need_.bytes_per_token)));
    }
    AddCodecs();
    return std::move(rules_);
  }

 private:
  void Add(std::string name, std::uint64_t per_token, const std::string& formula) {
    AddBytes(std::move(name), per_token * tokens_,
             fmt::format("{} x {} tokens", formula, Number(tokens_)));
  }
  // A rule that says the same as one before, or the truth, is none.
  void AddBytes(std::string name, std::uint64_t bytes, std::string formula) {
    const double factor =
        static_cast<double>(bytes) / static_cast<double>(need_.bytes_per_sequence);
    if (factor > 0.995 && factor < 1.005) return;
    if (std::ranges::find(rules_, bytes, &RuleOfThumb::bytes) != rules_.end()) return;
    rules_.push_back(
        {.name = std::move(name), .formula = std::move(formula), .bytes = bytes, .factor = factor});
  }

  void AddHeads() {
    const std::uint64_t layers = g_.layers.size();
    Add("query heads instead of kv heads", 2 * layers * g_.heads * g_.head_dim * kF16Bytes,
        fmt::format("2 x {} layers x {} query heads x {} x 2 bytes", layers, g_.heads,
                    g_.head_dim));
    Add("the hidden size", 2 * layers * g_.hidden * kF16Bytes,
        fmt::format("2 x {} layers x {} x 2 bytes", layers, Number(g_.hidden)));
    const std::optional<model::LayerKv> layer = UniformLayer(g_);
    if (!layer) return;
    if (g_.hidden / g_.heads != g_.head_dim) {
      Add("heads of hidden / query heads",
          2 * layers * layer->kv_heads * (g_.hidden / g_.heads) * kF16Bytes,
          fmt::format("2 x {} layers x {} kv heads x {} / {} x 2 bytes", layers, layer->kv_heads,
                      Number(g_.hidden), g_.heads));
    }
    const auto keeping = static_cast<std::uint64_t>(std::ranges::count_if(
        g_.layers, [](const model::LayerKv& one) { return one.kv_heads > 0; }));
    if (keeping < layers) {
      Add("every layer keeps keys and values",
          layers * layer->kv_heads * (layer->key_dim + layer->value_dim) * kF16Bytes,
          fmt::format("{} layers, not {}, x {} kv heads x {} x 2 bytes", layers, keeping,
                      layer->kv_heads, layer->key_dim + layer->value_dim));
    }
  }

  void AddLatent(const LatentAttention& latent) {
    const std::uint64_t layers = g_.layers.size();
    Add("MLA as if it kept K and V of all heads",
        layers * g_.heads * (g_.head_dim + latent.value_dim) * kF16Bytes,
        fmt::format("{} layers x {} heads x ({} + {}) x 2 bytes", layers, g_.heads, g_.head_dim,
                    latent.value_dim));
    Add("the hidden size", 2 * layers * g_.hidden * kF16Bytes,
        fmt::format("2 x {} layers x {} x 2 bytes", layers, Number(g_.hidden)));
  }

  // Of the tokens that are held, so that windows are counted.
  void AddCodecs() {
    std::uint64_t numbers = 0;
    std::uint64_t bytes = 0;
    bool is_encoded = false;
    for (const GroupNeed& group : need_.groups) {
      const std::uint64_t rows = group.lanes * group.peak_blocks * need_.block_tokens;
      numbers += rows * (std::uint64_t{group.key_dim} + group.value_dim);
      bytes +=
          rows / 8 *
          (group.key_dim * BitsOf(group.key_codec) + group.value_dim * BitsOf(group.value_codec));
      is_encoded = is_encoded || group.open_block_bytes > 0;
    }
    AddBytes("2 bytes whatever the codec", numbers * kF16Bytes,
             fmt::format("{} numbers x 2 bytes", Number(numbers)));
    if (is_encoded) {
      AddBytes("the codec's bits without scales and open blocks", bytes,
               fmt::format("{} numbers x {:.3g} bits / 8", Number(numbers),
                           8.0 * static_cast<double>(bytes) / static_cast<double>(numbers)));
    }
  }

  static std::uint64_t BitsOf(const std::string& codec) {
    if (codec.empty()) return 0;
    const Result<KvCodec> parsed = ParseKvCodec(codec);
    // Of a tile that needs no filling up, in bits of a number.
    return parsed.ok() ? CodeBytes(parsed->kind, kUnitChannels, kUnitTokens) * 8 /
                             (kUnitChannels * kUnitTokens)
                       : 0;
  }

  const Geometry& g_;
  const KvNeed& need_;
  std::uint64_t tokens_;
  bool has_window_ = false;
  std::vector<RuleOfThumb> rules_;
};

}  // namespace

std::vector<RuleOfThumb> RulesOfThumb(const Geometry& geometry, const KvNeed& need,
                                      const Workload& workload) {
  return Rules(geometry, need, workload).All();
}

}  // namespace ashlar::plan
