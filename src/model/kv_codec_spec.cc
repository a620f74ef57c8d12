#include "model/kv_codec_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ashlar::model {
namespace {

constexpr std::array<KvCodecPreset, 5> kPresets = {{{"exact", "k=f16,v=f16"},
                                                    {"q8", "k=hq8,v=q8"},
                                                    {"balanced", "k=hq8,v=hq4,edge=2@hq8"},
                                                    {"small-model", "k=hq6,v=hq6"},
                                                    {"q4", "k=hq4,v=hq4,edge=2@hq8"}}};
constexpr std::uint32_t kMaxEdgeLayers = 1024;

Error Bad(std::string_view item, std::string_view right) {
  return MakeError(ErrorCode::kInvalidArgument, "KV codec: '{}' is not understood; {}", item,
                   right);
}

struct Parser {
  KvCodecSpec spec;
  std::optional<KvCodec> key;
  std::optional<KvCodec> value;

  Status Edge(std::string_view item, std::string_view text) {
    const std::size_t at = text.find('@');
    constexpr std::string_view kRight = "edge layers are given as a number and a codec: edge=2@hq8";
    if (at == std::string_view::npos) return Bad(item, kRight);
    const std::string_view number = text.substr(0, at);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), spec.edge_layers);
    if (error != std::errc() || end != number.data() + number.size() || spec.edge_layers == 0 ||
        spec.edge_layers > kMaxEdgeLayers) {
      return Bad(item, kRight);
    }
    ASHLAR_ASSIGN(const KvCodec codec, ParseKvCodec(text.substr(at + 1)));
    spec.edge = {codec, codec};
    return {};
  }

  Status Item(std::string_view item) {
    const std::size_t equals = item.find('=');
    const std::string_view field = item.substr(0, equals);
    const std::string_view text =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (field == "edge" && spec.edge_layers == 0) return Edge(item, text);
    if (field != "k" && field != "v" && field != "sliding") {
      return Bad(item, "use k=CODEC,v=CODEC, edge=N@CODEC and sliding=CODEC, each once");
    }
    ASHLAR_ASSIGN(const KvCodec codec, ParseKvCodec(text));
    const bool is_again = field == "k"   ? key.has_value()
                          : field == "v" ? value.has_value()
                                         : spec.sliding.has_value();
    if (is_again) return Bad(item, "it was given before");
    if (field == "k") key = codec;
    if (field == "v") value = codec;
    if (field == "sliding") spec.sliding = CodecPair{codec, codec};
    return {};
  }
};

Result<KvCodecSpec> ParseItems(std::string_view text) {
  Parser parser;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    ASHLAR_TRY(parser.Item(rest.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (!parser.key || !parser.value) {
    return Bad(text, "K and V both need a codec: k=hq8,v=hq4");
  }
  parser.spec.full = {*parser.key, *parser.value};
  return parser.spec;
}

}  // namespace

std::span<const KvCodecPreset> KvCodecPresets() { return kPresets; }

Result<KvCodecSpec> ParseKvCodecSpec(std::string_view text) {
  const auto preset = std::ranges::find(kPresets, text, &KvCodecPreset::name);
  KvCodecSpec spec;
  if (preset != kPresets.end()) {
    ASHLAR_ASSIGN(spec, ParseItems(preset->spec));
  } else if (text.find('=') != std::string_view::npos) {
    ASHLAR_ASSIGN(spec, ParseItems(text));
  } else {
    Result<KvCodec> codec = ParseKvCodec(text);
    if (!codec.ok()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}; or a preset: exact, q8, balanced, small-model, q4; or each by itself: "
                       "k=hq8,v=hq4",
                       codec.error().message);
    }
    spec = KvCodecSpec::Of(*codec);
  }
  spec.name = std::string(text);
  return spec;
}

}  // namespace ashlar::model
