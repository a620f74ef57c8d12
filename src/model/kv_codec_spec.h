// Which codec each layer's K and V have: what `--kv-codec` says.
//
//   spec    := preset | codec | item { "," item }
//   item    := "k=" codec | "v=" codec | "edge=" number "@" codec | "sliding=" codec
//   codec   := as base/kv_codec.h: f16, q8, hq4 ...
//
// A codec alone is for K and V. `edge=2@hq8`: the first and the last two layers have hq8 for both.
// `sliding=f16`: so have the layers that attend to a window only, at the ends too (of the models
// that run today none has any). Presets:
//
//   exact         f16
//   q8            k=hq8,v=q8                  8.5 bits
//   balanced      k=hq8,v=hq4,edge=2@hq8      6.5 bits and the edges
//   small-model   k=hq6,v=hq6                 6.5 bits
//   q4            k=hq4,v=hq4,edge=2@hq8      4.5 bits and the edges
//
// The name q8 or q4 alone is the preset; k=q8,v=q8 is the plain codec for both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/kv_codec.h"
#include "base/result.h"

namespace ashlar::model {

struct CodecPair {
  KvCodec key;
  KvCodec value;

  friend bool operator==(const CodecPair&, const CodecPair&) = default;
};

struct KvCodecSpec {
  std::string name = "exact";  // as it was given
  CodecPair full;
  std::uint32_t edge_layers = 0;  // at each end
  CodecPair edge;
  std::optional<CodecPair> sliding;

  static KvCodecSpec Of(KvCodec codec) {
    return {
        .name = NameOf(codec), .full = {codec, codec}, .edge_layers = 0, .edge = {}, .sliding = {}};
  }
};

struct KvCodecPreset {
  std::string_view name;
  std::string_view spec;
};
std::span<const KvCodecPreset> KvCodecPresets();

// Errors: kInvalidArgument naming the part that is wrong and what would be right.
Result<KvCodecSpec> ParseKvCodecSpec(std::string_view text);

}  // namespace ashlar::model
