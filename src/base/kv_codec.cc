#include "base/kv_codec.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace ashlar {
namespace {

using enum KvCodecKind;

struct KindInfo {
  KvCodecKind kind;
  std::string_view name;
  std::size_t bits;  // of one code
};
constexpr std::array<KindInfo, 12> kKinds = {{{kF32, "f32", 32},
                                              {kF16, "f16", 16},
                                              {kBF16, "bf16", 16},
                                              {kFp8, "fp8", 8},
                                              {kQ8, "q8", 8},
                                              {kQ6, "q6", 6},
                                              {kQ5, "q5", 5},
                                              {kQ4, "q4", 4},
                                              {kKc4, "kc4", 4},
                                              {kKc2, "kc2", 2},
                                              {kLm4, "lm4", 4},
                                              {kLm3, "lm3", 3}}};

const KindInfo& InfoOf(KvCodecKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  ASHLAR_CHECK(index < kKinds.size() && kKinds[index].kind == kind, "KV codec {}", index);
  return kKinds[index];
}

constexpr std::size_t RoundUp(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Bytes of scales and minima of a tile; numbers are f16 but for fp8's.
std::size_t ScaleBytes(KvCodecKind kind, KvRole role, std::size_t dim, std::size_t block_tokens) {
  const std::size_t channel_groups = RoundUp(dim, kUnitChannels) / kUnitChannels;
  switch (kind) {
    case kF32:
    case kF16:
    case kBF16:
      return 0;
    case kFp8:
      return sizeof(float);
    case kQ8:
    case kQ6:
    case kQ5:
    case kQ4:
      return 2 * block_tokens * channel_groups;
    case kKc4:
    case kKc2:
      return role == KvRole::kKey ? 4 * channel_groups * kUnitChannels
                                  : 4 * block_tokens * channel_groups;
    case kLm4:
    case kLm3:
      return 2 * block_tokens;
  }
  ASHLAR_CHECK(false, "KV codec {}", static_cast<int>(kind));
}

}  // namespace

std::string_view NameOf(KvCodecKind kind) { return InfoOf(kind).name; }

std::string NameOf(KvCodec codec) {
  return fmt::format("{}{}", codec.is_rotated ? "h" : "", NameOf(codec.kind));
}

std::span<const KvCodecKind> AllKvCodecKinds() {
  static constexpr std::array<KvCodecKind, kKinds.size()> kAll = {
      kF32, kF16, kBF16, kFp8, kQ8, kQ6, kQ5, kQ4, kKc4, kKc2, kLm4, kLm3};
  return kAll;
}

Result<KvCodec> ParseKvCodec(std::string_view name) {
  const bool is_rotated = name.starts_with('h');
  const std::string_view kind_name = is_rotated ? name.substr(1) : name;
  std::string known;
  for (const KindInfo& info : kKinds) {
    if (info.name == kind_name && !(is_rotated && IsRaw(info.kind))) {
      return KvCodec{.kind = info.kind, .is_rotated = is_rotated};
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", info.name);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "KV codec '{}' is unknown; use one of: {}; or, rotated, h before one that is "
                   "not a plain float (hq8)",
                   name, known);
}

std::size_t CodeBytes(KvCodecKind kind, std::size_t dim, std::size_t block_tokens) {
  const bool has_units = !IsRaw(kind) && kind != kFp8;
  const std::size_t channels = has_units ? RoundUp(dim, kUnitChannels) : dim;
  return channels * block_tokens * InfoOf(kind).bits / 8;
}

std::size_t TileBytes(KvCodec codec, KvRole role, std::size_t dim, std::size_t block_tokens) {
  if (dim == 0) return 0;
  return RoundUp(
      CodeBytes(codec.kind, dim, block_tokens) + ScaleBytes(codec.kind, role, dim, block_tokens),
      64);
}

}  // namespace ashlar
