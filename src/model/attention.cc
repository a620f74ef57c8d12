#include "model/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "model/attention_work.h"

namespace ashlar::model {
namespace {

using kernels::kSegmentTokens;
using kernels::kSpanSegments;

constexpr std::size_t RoundUp(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Attention::Attention(const ModelConfig& config, const kv::KvLayout& layout,
                     const kernels::KernelSet& kernels, ThreadPool& pool, std::size_t max_tokens,
                     const AttentionSpec& spec)
    : layout_(layout),
      kernels_(kernels),
      pool_(pool),
      spec_(spec),
      heads_(config.heads),
      kv_heads_(config.kv_heads),
      group_(config.group()),
      head_dim_(config.head_dim),
      value_dim_(spec.latent_dim > 0 ? spec.latent_dim : config.head_dim),
      block_tokens_(layout.block_tokens()),
      max_tokens_(max_tokens),
      plans_(layout.groups().size()),
      splits_(layout.groups().size() * max_tokens),
      sizes_(AttentionSizes::Of(config, layout, max_tokens, pool.threads())),
      queries_(sizes_.query_floats),
      prepared_(sizes_.prepared_bytes),
      kept_(sizes_.kept_bytes),
      paths_(sizes_.all_path_bytes),
      scratch_(sizes_.all_scratch_floats),
      partials_(sizes_.partial_floats) {
  ASHLAR_CHECK(group_ <= kMaxItemRows, "{} query heads share a kv head", group_);
  ASHLAR_CHECK(head_dim_ <= kernels::kMaxHeadDim && value_dim_ <= head_dim_ && value_dim_ % 8 == 0,
               "a head of {} and {} channels; at most {}", head_dim_, value_dim_,
               kernels::kMaxHeadDim);
  if (spec_.scale == 0.0f) {
    spec_.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim_)));
  }
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    for (std::uint32_t head = 0; head < config.kv_heads; ++head) {
      const std::optional<kv::LanePlace> place = layout.Find({.layer = layer, .head = head});
      ASHLAR_CHECK(place, "layer {} kv head {} has no lane", layer, head);
      places_.push_back(*place);
      ASHLAR_CHECK(place->group == PlaceOf(layer, 0).group,
                   "layer {}: heads in several lane groups", layer);
      heads_are_in_a_row_ =
          heads_are_in_a_row_ &&
          place->key_offset == PlaceOf(layer, 0).key_offset + head * TileBytes(place->group);
    }
  }
  for (const kv::LaneGroup& group : layout.groups()) CheckLanes(group);
  row_chunk_.reserve(max_tokens);
  refused_.reserve(max_tokens);
  kept_base_.reserve(max_tokens);
  sharers_.reserve(max_tokens);
  rest_.reserve(max_tokens);
  const std::size_t states = sizes_.partial_floats / (StateFloats(group_) * kv_heads_);
  for (GroupPlan& plan : plans_) {
    plan.items.reserve((max_tokens + states) * kv_heads_);
    plan.members.reserve(max_tokens + states);
    plan.split.reserve(max_tokens);
    plan.pieces.reserve(states);
  }
}

void Attention::CheckLanes(const kv::LaneGroup& group) const {
  const kv::LaneGroupSpec& lanes = group.spec();
  ASHLAR_CHECK(
      lanes.key_dim == head_dim_ && lanes.value_dim == (spec_.latent_dim > 0 ? 0 : value_dim_),
      "lane group '{}' was made for another model", group.name());
  ASHLAR_CHECK(lanes.sinks == 0 || lanes.window >= block_tokens_,
               "lane group '{}': a window of {} beside sinks", group.name(), lanes.window);
  ASHLAR_CHECK(spec_.latent_dim == 0 || (lanes.key_codec.kind != KvCodecKind::kKc4 &&
                                         lanes.key_codec.kind != KvCodecKind::kKc2),
               "lane group '{}': a latent in {}", group.name(), NameOf(lanes.key_codec));
  ASHLAR_CHECK(spec_.latent_dim == 0 || !lanes.key_codec.is_rotated ||
                   spec_.latent_dim % kernels::HadamardSize(head_dim_) == 0,
               "lane group '{}': a latent of {} ends within a rotated block", group.name(),
               spec_.latent_dim);
}

std::uint64_t Attention::workspace_bytes() const {
  return queries_.bytes() + prepared_.bytes() + kept_.bytes() + paths_.bytes() + scratch_.bytes() +
         partials_.bytes();
}

void Attention::Run(std::size_t layer, const float* q, float* out, const AttentionTap* tap) {
  layer_ = layer;
  tap_ = tap;
  ForEachRow([&](std::size_t row) { PrepareRow(layer, row, q); });
  const std::vector<Item>& items = plan().items;
  const std::size_t batch = plan().batch;
  pool_.ParallelFor((items.size() + batch - 1) / batch, [&](std::size_t i, std::size_t worker) {
    const auto at_hand =
        std::span(items).subspan(i * batch, std::min(batch, items.size() - i * batch));
    if (i < pool_.threads()) AskForFirstSegment(at_hand);
    RunBatch(at_hand, worker, out);
  });
  if (!plan().split.empty()) FoldSplit(out);
}

// --- Items ---

void Attention::RunBatch(std::span<const Item> items, std::size_t worker, float* out) {
  if (items.size() > 1 && items.front().is_alone()) return RunTogether(items, worker);
  for (const Item& item : items) RunItem(item, worker, out);
}

void Attention::UseMemoryOf(std::size_t worker, Work& work) {
  float* base = scratch_.data() + worker * sizes_.scratch_floats;
  const auto take = [&](std::size_t floats) {
    float* const taken = base;
    base += RoundUp(floats, 16);
    return taken;
  };
  work.gathered_q = take(kMaxItemRows * head_dim_);
  work.gathered_prepared =
      reinterpret_cast<std::byte*>(take(kMaxItemRows * sizes_.prepared_stride / sizeof(float)));
  work.total = StateAt(take(StateFloats(kMaxItemRows)), kMaxItemRows);
  work.span = StateAt(take(StateFloats(kMaxItemRows)), kMaxItemRows);
  work.part = StateAt(take(StateFloats(kMaxItemRows)), kMaxItemRows);
  work.logits = take(kMaxItemRows * kSegmentTokens);
  work.kernel_scratch = take(kernels::kAttendScratchFloats);
  work.path_memory = paths_.data() + worker * sizes_.path_bytes;
}

void Attention::RunItem(const Item& item, std::size_t worker, float* out) {
  Work work;
  work.batch = {&item, 1};
  work.item = &item;
  UseMemoryOf(worker, work);
  LoadRows(item, work);
  if (item.begin == kAllSegments) return RunTile(work, out);

  RunSegments(work, item.begin, item.end, work.span);
  for (std::uint32_t m = 0; m < item.members; ++m) {
    const State from = work.span.At(m * group_, value_dim_);
    const State to = PartialOf(plan().members[item.member + m], item.begin, item.kv_head);
    std::copy_n(from.max, group_, to.max);
    std::copy_n(from.sum, group_, to.sum);
    std::copy_n(from.acc, group_ * value_dim_, to.acc);
  }
}

// Several kv heads of a token, segment by segment: their tiles lie in a row, and memory is read
// faster in longer pieces.
void Attention::RunTogether(std::span<const Item> items, std::size_t worker) {
  Work work;
  work.batch = items;
  UseMemoryOf(worker, work);
  for (std::uint64_t segment = items[0].begin; segment < items[0].end; ++segment) {
    for (const Item& item : items) {
      work.item = &item;
      LoadRows(item, work);
      const State into = PartialOf(work.chunk, item.begin, item.kv_head);
      AttendSegment(work, segment, segment == item.begin ? into : work.part);
      if (segment != item.begin) Merge(work.rows, into, work.part);
    }
  }
}

// One chunk's rows are where PrepareRow left them; those of several are gathered.
void Attention::LoadRows(const Item& item, Work& work) {
  const std::uint32_t* const members = plan().members.data() + item.member;
  const std::size_t stride =
      kernels::PreparedBytes(lane_group().spec().key_codec.kind, 1, head_dim_);
  work.chunk = members[0];
  const AttentionChunk& chunk = chunks_[work.chunk];
  work.first_position = TextPosition(chunk, item.first);
  work.own_start = work.first_position / block_tokens_ * block_tokens_;
  if (item.members == 1) {
    work.rows = item.count * group_;
    const std::size_t first = QueryRow(chunk.first_row + item.first, item.kv_head);
    work.q = queries_.data() + first * head_dim_;
    work.prepared = prepared_.data() + first * stride;
    work.has_own = true;
    if (chunk.parents.empty()) {
      work.own = RawTilesOf(layer_, work.chunk, work.own_start / block_tokens_, item.kv_head);
    } else {
      LoadPath(work);
    }
    for (std::size_t r = 0; r < work.rows; ++r) {
      work.visible[r] =
          static_cast<std::uint32_t>(work.first_position - work.own_start + r / group_ + 1);
    }
    return;
  }
  work.rows = item.members * group_;
  for (std::size_t m = 0; m < item.members; ++m) {
    const std::size_t from = QueryRow(chunks_[members[m]].first_row, item.kv_head);
    std::copy_n(queries_.data() + from * head_dim_, group_ * head_dim_,
                work.gathered_q + m * group_ * head_dim_);
    std::copy_n(prepared_.data() + from * stride, group_ * stride,
                work.gathered_prepared + m * group_ * stride);
  }
  work.q = work.gathered_q;
  work.prepared = work.gathered_prepared;
  work.own_start = item.end * kSegmentTokens;  // of no row before this
}

// All that the rows see, to the result.
void Attention::RunTile(Work& work, float* out) {
  const Item& item = *work.item;
  const std::uint32_t group = PlaceOf(layer_, 0).group;
  const std::uint64_t last = (work.first_position + item.count - 1) / kSegmentTokens;
  std::uint64_t segment = FirstSegment(group, work.first_position);
  bool is_first = true;
  if (lane_group().spec().sinks > 0 && work.own_start > 0) {
    AttendSinks(work, work.total);
    is_first = false;
  }
  while (segment <= last) {
    const std::uint64_t end = std::min((segment / kSpanSegments + 1) * kSpanSegments, last + 1);
    RunSegments(work, segment, end, is_first ? work.total : work.span);
    if (!is_first) Merge(work.rows, work.total, work.span);
    is_first = false;
    segment = end;
  }
  for (std::size_t t = 0; t < item.count; ++t) {
    Finish(work.chunk, item.first + t, item.kv_head, work.total.At(t * group_, value_dim_), out);
  }
}

// Segments [begin, end) of one span, folded in order.
void Attention::RunSegments(Work& work, std::uint64_t begin, std::uint64_t end, State into) {
  for (std::uint64_t segment = begin; segment < end; ++segment) {
    AttendSegment(work, segment, segment == begin ? into : work.part);
    if (segment != begin) Merge(work.rows, into, work.part);
  }
}

// --- One kernel call ---

// The first tokens, which a group with a window keeps; those in the rows' own block come with it.
void Attention::AttendSinks(Work& work, State into) {
  const std::uint64_t sinks = std::min<std::uint64_t>(lane_group().spec().sinks, work.own_start);
  for (std::uint64_t segment = 0; segment * kSegmentTokens < sinks; ++segment) {
    const std::uint64_t start = segment * kSegmentTokens;
    kernels::AttendArgs args = {};
    args.limit = std::min<std::uint64_t>(sinks - start, kSegmentTokens);
    args.sealed = RoundUp(args.limit, block_tokens_);
    RunKernel(work, args, segment, segment == 0 ? into : work.part);
    if (segment > 0) Merge(work.rows, into, work.part);
  }
}

void Attention::AttendSegment(Work& work, std::uint64_t segment, State into) {
  const std::uint64_t start = segment * kSegmentTokens;
  const kv::LaneGroupSpec& lanes = lane_group().spec();
  kernels::AttendArgs args = {};
  args.limit = kSegmentTokens;
  args.sealed = std::min<std::uint64_t>(work.own_start - start, kSegmentTokens);
  if (work.has_own && work.own_start < start + kSegmentTokens) {
    args.own_k = work.own.k;
    args.own_v = work.own.v;
    args.own_visible = work.visible.data();
  }
  if (lanes.window > 0) {
    std::uint64_t least = kSegmentTokens;
    for (std::size_t r = 0; r < work.rows; ++r) {
      const std::uint64_t end = work.first_position + r / group_ + 1;
      std::uint64_t first = end - std::min(end, lanes.window);
      if (lanes.sinks > 0) first = std::max(first, std::min(lanes.sinks, work.own_start));
      first -= std::min(first, start);
      work.first[r] = static_cast<std::uint32_t>(std::min<std::uint64_t>(first, kSegmentTokens));
      least = std::min<std::uint64_t>(least, work.first[r]);
    }
    args.first = work.first.data();
    args.begin = std::min<std::size_t>(least / block_tokens_ * block_tokens_, args.sealed);
  }
  RunKernel(work, args, segment, into);
}

// Completes the arguments and runs the kernel.
void Attention::RunKernel(Work& work, kernels::AttendArgs& args, std::uint64_t segment,
                          State into) {
  const kv::LaneGroupSpec& lanes = lane_group().spec();
  const kv::LanePlace& place = PlaceOf(layer_, work.item->kv_head);
  const std::span<std::byte* const> blocks = chunks_[work.chunk].groups[place.group].blocks;
  const std::size_t first_block = segment * kSegmentTokens / block_tokens_;
  for (std::size_t b = args.begin / block_tokens_; b * block_tokens_ < args.sealed; ++b) {
    if (first_block + b >= work.path_first) {
      work.k_tiles[b] = work.path[first_block + b - work.path_first].k;
      work.v_tiles[b] = work.path[first_block + b - work.path_first].v;
      continue;
    }
    work.k_tiles[b] = blocks[first_block + b] + place.key_offset;
    work.v_tiles[b] = blocks[first_block + b] + place.value_offset;
  }
  args.key_kind = lanes.key_codec.kind;
  args.value_kind = spec_.latent_dim > 0 ? args.key_kind : lanes.value_codec.kind;
  args.own_key_kind = OpenKindOf(lanes.key_codec);
  args.own_value_kind = spec_.latent_dim > 0 ? args.own_key_kind : OpenKindOf(lanes.value_codec);
  args.head_dim = head_dim_;
  args.value_dim = value_dim_;
  args.is_latent = spec_.latent_dim > 0;
  args.block_tokens = block_tokens_;
  args.k_tiles = work.k_tiles.data();
  args.v_tiles = work.v_tiles.data();
  args.softcap = spec_.softcap;
  args.q = work.q;
  args.q_stride = head_dim_;
  args.prepared = work.prepared;
  args.rows = work.rows;
  args.max = into.max;
  args.sum = into.sum;
  args.acc = into.acc;
  args.logits = tap_ != nullptr ? work.logits : nullptr;
  args.scratch = work.kernel_scratch;
  LookAhead(work, segment, args);
  kernels_.attend(args);
  if (tap_ != nullptr) TapLogits(work, segment, args);
}

// Nobody looked ahead to a layer's first items: their first segment is asked for all at once, pages
// first (decision 10). Not raw tiles: they lie in longer pieces, which the processor follows, and
// take no less time then (2k tokens in f16: 7 % more; in q8: 14 % less).
void Attention::AskForFirstSegment(std::span<const Item> items) const {
  const Item& first = items.front();
  if (first.begin == kAllSegments || !lane_group().is_encoded()) return;
  std::array<const std::byte*, kMaxBlocksPerSegment> tiles;
  const std::size_t count = FirstTilesOf(first, first.begin, tiles.data());
  const std::size_t bytes =
      (first.is_alone() ? items.size() : 1) * TileBytes(PlaceOf(layer_, 0).group);
  for (const std::size_t stride : {std::size_t{4096}, std::size_t{64}}) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t at = 0; at < bytes; at += stride) {
        __builtin_prefetch(tiles[i] + at, /*rw=*/0, /*locality=*/2);
      }
    }
  }
}

// What this worker is likely to read next: the next segment of the items at hand, or the first one
// of the items that it will probably be handed. Items that run together share in asking for it.
void Attention::LookAhead(Work& work, std::uint64_t segment, kernels::AttendArgs& args) const {
  const std::vector<Item>& items = plan().items;
  const Item* next = &work.batch.front();
  const std::uint64_t end = next->begin == kAllSegments
                                ? (work.first_position + next->count - 1) / kSegmentTokens + 1
                                : next->end;
  ++segment;
  if (segment >= end) {
    auto index = static_cast<std::size_t>(&work.batch.back() - items.data()) + 1;
    if (index % plan().batch == 0) index += (pool_.threads() - 1) * plan().batch;
    if (index >= items.size() || items[index].begin == kAllSegments) return;
    next = &items[index];
    segment = next->begin;
  }
  const std::size_t heads = next->is_alone() ? plan().batch : 1;
  const std::size_t blocks = FirstTilesOf(*next, segment, work.next_tiles.data());
  const std::size_t sharers = work.batch.size();
  const auto share = static_cast<std::size_t>(work.item - work.batch.data());
  args.next = work.next_tiles.data() + blocks * share / sharers;
  args.next_count = blocks * (share + 1) / sharers - blocks * share / sharers;
  // V follows K, and the next head's K that.
  args.next_bytes = heads * (lane_group().key_tile_bytes() + lane_group().value_tile_bytes());
}

// Where the lane's sealed tiles of a segment begin, as an item reads them.
std::size_t Attention::FirstTilesOf(const Item& item, std::uint64_t segment,
                                    const std::byte** tiles) const {
  const AttentionChunk& chunk = chunks_[plan().members[item.member]];
  const kv::LanePlace& place = PlaceOf(layer_, item.kv_head);
  const std::span<std::byte* const> blocks = chunk.groups[place.group].blocks;
  const std::uint64_t start = segment * kSegmentTokens / block_tokens_;
  const std::size_t written = chunk.parents.empty() ? item.first : 0;
  const std::uint64_t sealed = (chunk.position + written) / block_tokens_;
  std::size_t count = 0;
  for (std::uint64_t b = start; b < sealed && count < kSegmentTokens / block_tokens_; ++b) {
    if (blocks[b] != nullptr) tiles[count++] = blocks[b] + place.key_offset;
  }
  return count;
}

void Attention::TapLogits(const Work& work, std::uint64_t segment,
                          const kernels::AttendArgs& args) const {
  const std::uint32_t* const members = plan().members.data() + work.item->member;
  for (std::size_t r = 0; r < work.rows; ++r) {
    const bool is_one_chunk = work.item->members == 1;
    const std::uint32_t chunk = is_one_chunk ? members[0] : members[r / group_];
    const std::size_t token = is_one_chunk ? work.item->first + r / group_ : 0;
    const std::size_t before =
        chunks_[chunk].tokens - std::min(chunks_[chunk].tokens, tap_->last_tokens);
    if (chunk != tap_->chunk || token < before) continue;
    const std::size_t head = work.item->kv_head * group_ + r % group_;
    const std::size_t own = args.own_k == nullptr ? 0 : args.own_visible[r];
    const std::size_t end = std::min(args.sealed + own, args.limit);
    const std::size_t first =
        std::max<std::size_t>(args.begin, args.first == nullptr ? 0 : args.first[r]);
    if (first >= end) continue;
    float* const to =
        tap_->logits + ((token - before) * heads_ + head) * tap_->stride + segment * kSegmentTokens;
    std::copy_n(work.logits + r * kSegmentTokens + first, end - first, to + first);
  }
}

// --- States ---

void Attention::Merge(std::size_t rows, State into, State from) const {
  kernels_.merge({.rows = rows,
                  .head_dim = value_dim_,
                  .max = into.max,
                  .sum = into.sum,
                  .acc = into.acc,
                  .from_max = from.max,
                  .from_sum = from.sum,
                  .from_acc = from.acc});
}

// The state of one token's query heads of a kv head, all positions folded, to the result.
void Attention::Finish(std::uint32_t chunk, std::size_t token, std::uint32_t kv_head, State state,
                       float* out) const {
  const std::size_t head = kv_head * group_;
  if (!spec_.sink_logits.empty()) {
    constexpr float kOne = 1.0f;
    static constexpr std::array<float, kernels::kMaxHeadDim> kZeros = {};
    for (std::size_t g = 0; g < group_; ++g) {
      const State row = state.At(g, value_dim_);
      const float* const logit = spec_.sink_logits.data() + layer_ * heads_ + head + g;
      kernels_.merge({.rows = 1,
                      .head_dim = value_dim_,
                      .max = row.max,
                      .sum = row.sum,
                      .acc = row.acc,
                      .from_max = logit,
                      .from_sum = &kOne,
                      .from_acc = kZeros.data()});
    }
  }
  float* const to = out + ((chunks_[chunk].first_row + token) * heads_ + head) * value_dim_;
  kernels_.finish(state.acc, state.sum, group_, value_dim_, to, value_dim_);
  const kv::LaneGroupSpec& lanes = lane_group().spec();
  const bool is_rotated =
      spec_.latent_dim > 0 ? lanes.key_codec.is_rotated : lanes.value_codec.is_rotated;
  // A latent lies in the rotated blocks of K.
  const std::size_t block = spec_.latent_dim > 0 ? kernels::HadamardSize(head_dim_) : value_dim_;
  for (std::size_t c = 0; is_rotated && c < group_ * value_dim_; c += block) {
    kernels_.hadamard(to + c, block);
  }
  if (tap_ == nullptr || tap_->lse == nullptr || tap_->chunk != chunk) return;
  const std::size_t tokens = chunks_[chunk].tokens;
  const std::size_t before = tokens - std::min(tokens, tap_->last_tokens);
  if (token < before) return;
  for (std::size_t g = 0; g < group_; ++g) {
    tap_->lse[(token - before) * heads_ + head + g] = state.max[g] + std::log(state.sum[g]);
  }
}

Attention::State Attention::PartialOf(std::uint32_t chunk, std::uint64_t segment,
                                      std::size_t kv_head) {
  const Split& split = splits_[PlaceOf(layer_, 0).group * max_tokens_ + chunk];
  const std::size_t index = (split.first_piece + segment) * kv_heads_ + kv_head;
  return StateAt(partials_.data() + index * StateFloats(group_), group_);
}

// Pieces to spans, spans to a result, in order of position.
void Attention::FoldSplit(float* out) {
  const std::vector<std::uint32_t>& split = plan().split;
  pool_.ParallelFor(split.size() * kv_heads_, [&](std::size_t i, std::size_t) {
    const std::uint32_t chunk = split[i / kv_heads_];
    const auto kv_head = static_cast<std::uint32_t>(i % kv_heads_);
    const Split& at = splits_[PlaceOf(layer_, 0).group * max_tokens_ + chunk];
    const std::uint8_t* const pieces = plan().pieces.data() + at.first_piece;
    State total = {};
    for (std::uint64_t span = 0; span < CeilDiv(at.segments, kSpanSegments); ++span) {
      State folded = {};
      const std::uint64_t end = std::min((span + 1) * kSpanSegments, at.segments);
      for (std::uint64_t segment = span * kSpanSegments; segment < end; ++segment) {
        if (pieces[segment] == 0) continue;
        const State piece = PartialOf(chunk, segment, kv_head);
        folded.max == nullptr ? void(folded = piece) : Merge(group_, folded, piece);
      }
      if (folded.max == nullptr) continue;  // a window has passed
      total.max == nullptr ? void(total = folded) : Merge(group_, total, folded);
    }
    Finish(chunk, 0, kv_head, total, out);
  });
}

}  // namespace ashlar::model
