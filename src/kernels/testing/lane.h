// One lane of one sequence as a cache would hold it, for tests and benchmarks of attention: raw
// tiles of every block, and what each becomes when it is sealed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/testing/random_data.h"

namespace ashlar::kernels::testing {

struct LaneSpec {
  KvCodecKind key_kind = KvCodecKind::kF16;
  KvCodecKind value_kind = KvCodecKind::kF16;
  std::size_t head_dim = 64;
  std::size_t value_dim = 64;  // 0: V is the first latent_dim channels of K
  std::size_t block_tokens = 16;
  std::size_t latent_dim = 0;

  KvCodecKind own_key_kind() const { return OpenKindOf({.kind = key_kind}); }
  KvCodecKind own_value_kind() const { return OpenKindOf({.kind = value_kind}); }
  bool is_latent() const { return value_dim == 0; }
  std::size_t out_dim() const { return is_latent() ? latent_dim : value_dim; }
};

// K and V of one kind, `dim` elements each.
inline LaneSpec Both(KvCodecKind kind, std::size_t dim, std::size_t block_tokens) {
  return {.key_kind = kind,
          .value_kind = kind,
          .head_dim = dim,
          .value_dim = dim,
          .block_tokens = block_tokens};
}

class Lane {
 public:
  explicit Lane(LaneSpec spec) : spec_(spec) {}

  // Slots not yet written hold NaN in every raw format.
  bool Append(const KernelSet& kernels, const float* k, const float* v) {
    const std::size_t slot = tokens_ % spec_.block_tokens;
    if (slot == 0) {
      raw_k_.push_back(Tile(spec_.own_key_kind(), KvRole::kKey, spec_.head_dim));
      raw_v_.push_back(Tile(spec_.own_value_kind(), KvRole::kValue, spec_.value_dim));
    }
    ++tokens_;
    const bool is_finite = kernels.store_kv({.key_kind = spec_.own_key_kind(),
                                             .value_kind = spec_.own_value_kind(),
                                             .k = k,
                                             .v = v,
                                             .head_dim = spec_.head_dim,
                                             .value_dim = spec_.value_dim,
                                             .block_tokens = spec_.block_tokens,
                                             .slot = slot,
                                             .k_tile = raw_k_.back().data(),
                                             .v_tile = raw_v_.back().data()});
    if (slot + 1 == spec_.block_tokens) Seal(kernels);
    return is_finite;
  }
  void AppendRandom(const KernelSet& kernels, std::size_t tokens, std::uint64_t seed) {
    Random random(seed);
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::vector<float> k = random.Floats(spec_.head_dim, 2.0f);
      const std::vector<float> v = random.Floats(spec_.value_dim);
      Append(kernels, k.data(), v.data());
    }
  }

  const LaneSpec& spec() const { return spec_; }
  std::size_t tokens() const { return tokens_; }
  const std::vector<std::vector<std::byte>>& raw_k() const { return raw_k_; }
  const std::vector<std::vector<std::byte>>& raw_v() const { return raw_v_; }
  const std::vector<std::vector<std::byte>>& sealed_k() const { return sealed_k_; }
  const std::vector<std::vector<std::byte>>& sealed_v() const { return sealed_v_; }

  // K or V of a token as a query in block `own_block` sees it.
  std::vector<float> Seen(KvRole role, std::size_t token, std::size_t own_block) const {
    const std::size_t block = token / spec_.block_tokens;
    const bool is_own = block == own_block;
    const bool is_key = role == KvRole::kKey;
    const std::size_t dim = is_key ? spec_.head_dim : spec_.value_dim;
    const KvCodecKind raw_kind = is_key ? spec_.own_key_kind() : spec_.own_value_kind();
    const KvCodecKind kind = is_key ? spec_.key_kind : spec_.value_kind;
    const auto& tiles = is_key ? (is_own ? raw_k_ : sealed_k_) : (is_own ? raw_v_ : sealed_v_);
    std::vector<float> values(dim);
    DecodeRow(is_own ? raw_kind : kind, role, tiles[block].data(), dim, spec_.block_tokens,
              token % spec_.block_tokens, values.data());
    return values;
  }

 private:
  std::vector<std::byte> Tile(KvCodecKind kind, KvRole role, std::size_t dim) const {
    return std::vector<std::byte>(TileBytes({.kind = kind}, role, dim, spec_.block_tokens),
                                  std::byte{0xFF});
  }
  std::vector<std::byte> Sealed(const KernelSet& kernels, KvCodecKind kind, KvRole role,
                                std::size_t dim, const std::vector<std::byte>& raw) const {
    if (IsRaw(kind) || dim == 0) return raw;
    std::vector<std::byte> tile = Tile(kind, role, dim);
    kernels.encode({.kind = kind,
                    .role = role,
                    .raw_kind = kOpenKind,
                    .raw = raw.data(),
                    .dim = dim,
                    .block_tokens = spec_.block_tokens,
                    .tile = tile.data()});
    return tile;
  }
  void Seal(const KernelSet& kernels) {
    sealed_k_.push_back(
        Sealed(kernels, spec_.key_kind, KvRole::kKey, spec_.head_dim, raw_k_.back()));
    sealed_v_.push_back(
        Sealed(kernels, spec_.value_kind, KvRole::kValue, spec_.value_dim, raw_v_.back()));
  }

  LaneSpec spec_;
  std::size_t tokens_ = 0;
  std::vector<std::vector<std::byte>> raw_k_;
  std::vector<std::vector<std::byte>> raw_v_;
  std::vector<std::vector<std::byte>> sealed_k_;
  std::vector<std::vector<std::byte>> sealed_v_;
};

// Query rows whose positions lie in one block of the lane, or in none of the segment's (all of it
// sealed).
struct Rows {
  std::vector<float> q;                  // [rows, head_dim]
  std::vector<std::uint32_t> positions;  // of each row
  std::uint32_t window = 0;              // sees only so many tokens up to itself; 0: all
  float softcap = 0.0f;
  std::uint32_t limit = kSegmentTokens;  // of each segment

  std::size_t count() const { return positions.size(); }
};

// Partial states of rows.
struct RowStates {
  std::vector<float> max;
  std::vector<float> sum;
  std::vector<float> acc;
  std::vector<float> logits;
};

// What each row sees of a segment that begins at `start`.
struct Views {
  std::vector<std::uint32_t> visible;
  std::vector<std::uint32_t> first;
  std::size_t begin = kSegmentTokens;
};
inline Views ViewsOf(const LaneSpec& spec, const Rows& rows, std::size_t start,
                     std::size_t own_start, std::size_t sealed) {
  Views views;
  for (const std::uint32_t position : rows.positions) {
    views.visible.push_back(static_cast<std::uint32_t>(position + 1 - own_start));
    const std::size_t sees_from =
        rows.window == 0 || position < rows.window ? 0 : position + 1 - rows.window;
    views.first.push_back(static_cast<std::uint32_t>(
        sees_from < start ? 0 : std::min(sees_from - start, kSegmentTokens)));
    const std::size_t first_block = views.first.back() / spec.block_tokens;
    views.begin = std::min(views.begin, first_block * spec.block_tokens);
  }
  views.begin = std::min(views.begin, sealed);
  return views;
}

inline RowStates AttendSegment(const KernelSet& kernels, const Lane& lane, std::size_t segment,
                               const Rows& rows) {
  const LaneSpec& spec = lane.spec();
  const std::size_t count = rows.count();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  RowStates states{std::vector<float>(count, nan), std::vector<float>(count, nan),
                   std::vector<float>(count * spec.out_dim(), nan),
                   std::vector<float>(count * kSegmentTokens, nan)};
  if (count == 0) return states;
  const std::size_t start = segment * kSegmentTokens;
  const std::size_t own_block = rows.positions[0] / spec.block_tokens;
  const std::size_t own_start = own_block * spec.block_tokens;
  const std::size_t sealed = std::min(own_start - start, kSegmentTokens);
  const bool has_own = own_start < start + kSegmentTokens;
  std::vector<const std::byte*> k;
  std::vector<const std::byte*> v;
  for (std::size_t t = 0; t < sealed; t += spec.block_tokens) {
    k.push_back(lane.sealed_k()[(start + t) / spec.block_tokens].data());
    v.push_back(lane.sealed_v()[(start + t) / spec.block_tokens].data());
  }
  const Views views = ViewsOf(spec, rows, start, own_start, sealed);
  AlignedFloats prepared(PreparedBytes(spec.key_kind, count, spec.head_dim) / sizeof(float) + 1);
  auto* const prepared_bytes = reinterpret_cast<std::byte*>(prepared.data());
  kernels.prepare({.key_kind = spec.key_kind,
                   .q = rows.q.data(),
                   .q_stride = spec.head_dim,
                   .rows = count,
                   .head_dim = spec.head_dim,
                   .prepared = prepared_bytes});
  AlignedFloats scratch(kAttendScratchFloats);
  for (float& value : scratch.span()) value = nan;
  const std::byte* const own_k = has_own ? lane.raw_k()[own_block].data() : nullptr;
  const std::byte* const own_v = has_own ? lane.raw_v()[own_block].data() : nullptr;
  kernels.attend({.key_kind = spec.key_kind,
                  .value_kind = spec.is_latent() ? spec.key_kind : spec.value_kind,
                  .own_key_kind = spec.own_key_kind(),
                  .own_value_kind = spec.own_value_kind(),
                  .head_dim = spec.head_dim,
                  .value_dim = spec.out_dim(),
                  .is_latent = spec.is_latent(),
                  .block_tokens = spec.block_tokens,
                  .k_tiles = k.data(),
                  .v_tiles = v.data(),
                  .sealed = sealed,
                  .begin = views.begin,
                  .own_k = own_k,
                  .own_v = own_v,
                  .own_visible = views.visible.data(),
                  .first = rows.window == 0 ? nullptr : views.first.data(),
                  .limit = std::min<std::size_t>(rows.limit, kSegmentTokens),
                  .softcap = rows.softcap,
                  .q = rows.q.data(),
                  .q_stride = spec.head_dim,
                  .prepared = prepared_bytes,
                  .rows = count,
                  .max = states.max.data(),
                  .sum = states.sum.data(),
                  .acc = states.acc.data(),
                  .logits = states.logits.data(),
                  .next = nullptr,
                  .next_count = 0,
                  .next_bytes = 0,
                  .scratch = scratch.data()});
  return states;
}

// Attention of rows in one block over all segments that they see, merged in order.
inline std::vector<float> AttendAll(const KernelSet& kernels, const Lane& lane, const Rows& rows) {
  const std::size_t dim = lane.spec().out_dim();
  RowStates total = AttendSegment(kernels, lane, 0, rows);
  const std::size_t last =
      *std::max_element(rows.positions.begin(), rows.positions.end()) / kSegmentTokens;
  for (std::size_t s = 1; s <= last; ++s) {
    const RowStates next = AttendSegment(kernels, lane, s, rows);
    kernels.merge({.rows = rows.count(),
                   .head_dim = dim,
                   .max = total.max.data(),
                   .sum = total.sum.data(),
                   .acc = total.acc.data(),
                   .from_max = next.max.data(),
                   .from_sum = next.sum.data(),
                   .from_acc = next.acc.data()});
  }
  std::vector<float> out(rows.count() * dim);
  kernels.finish(total.acc.data(), total.sum.data(), rows.count(), dim, out.data(), dim);
  return out;
}

}  // namespace ashlar::kernels::testing
