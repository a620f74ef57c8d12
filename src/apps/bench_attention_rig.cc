#include "apps/bench_attention_rig.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/rng.h"
#include "model/kv_layout.h"

namespace ashlar::apps {
namespace {

// Those of SmolLM2 135M, Llama 3.2 1B, Llama 3.1 8B and Gemma 3 270M.
constexpr std::array<AttentionGeometry, 4> kGeometries = {{
    {.name = "9q3kv64", .heads = 9, .kv_heads = 3, .head_dim = 64, .layers = 30},
    {.name = "32q8kv64", .heads = 32, .kv_heads = 8, .head_dim = 64, .layers = 16},
    {.name = "32q8kv128", .heads = 32, .kv_heads = 8, .head_dim = 128, .layers = 32},
    {.name = "4q1kv256", .heads = 4, .kv_heads = 1, .head_dim = 256, .layers = 18},
}};

float RandomFloat(std::uint64_t stream, std::uint64_t index) {
  return static_cast<float>(2.0 * RandomUnit(11, stream, index) - 1.0);
}

model::KvCodecSpec SpecOf(const CodecPair& codecs) {
  return {.name = NameOf(codecs), .full = codecs, .edge_layers = 0, .edge = {}, .sliding = {}};
}

model::ModelConfig ConfigOf(const AttentionGeometry& geometry, std::uint32_t layers) {
  model::ModelConfig config;
  config.layers = layers;
  config.heads = geometry.heads;
  config.kv_heads = geometry.kv_heads;
  config.head_dim = geometry.head_dim;
  config.hidden = geometry.heads * geometry.head_dim;
  return config;
}

}  // namespace

std::span<const AttentionGeometry> AttentionGeometries() { return kGeometries; }

std::string NameOf(const CodecPair& codecs) {
  if (codecs.key == codecs.value) return ashlar::NameOf(codecs.key);
  return fmt::format("k={},v={}", ashlar::NameOf(codecs.key), ashlar::NameOf(codecs.value));
}

Result<CodecPair> ParseCodecPair(std::string_view text) {
  // q8 and q4 alone are the plain codecs here: what is measured is how they are read.
  if (const Result<KvCodec> codec = ParseKvCodec(text); codec.ok()) {
    return CodecPair{.key = *codec, .value = *codec};
  }
  ASHLAR_ASSIGN(const model::KvCodecSpec spec, model::ParseKvCodecSpec(text));
  return spec.full;
}

Status AttentionRig::Check(const CodecPair& codecs, std::uint32_t block_tokens) {
  for (const AttentionGeometry& geometry : kGeometries) {
    ASHLAR_TRY(model::KvLayoutOf(ConfigOf(geometry, 1), SpecOf(codecs), block_tokens));
  }
  return {};
}

Result<std::unique_ptr<AttentionRig>> AttentionRig::Create(const AttentionRigSpec& spec,
                                                           ThreadPool& pool) {
  ASHLAR_ASSIGN(
      const kv::KvLayout one_layer,
      model::KvLayoutOf(ConfigOf(spec.geometry, 1), SpecOf(spec.codecs), spec.block_tokens));
  ASHLAR_CHECK(spec.prefix_tokens % spec.block_tokens == 0, "a shared block would be written to");
  ASHLAR_CHECK(spec.step_tokens >= 1 && spec.step_tokens <= spec.prefix_tokens + spec.own_tokens,
               "{} tokens of a step", spec.step_tokens);
  const std::uint64_t blocks =
      spec.sequences * one_layer.BlocksNeeded(spec.prefix_tokens + spec.own_tokens);
  const std::uint64_t layer_bytes = blocks * one_layer.group(0).block_bytes();
  const std::uint64_t layers =
      std::min<std::uint64_t>(spec.geometry.layers, spec.memory_bytes / layer_bytes);
  if (layers == 0) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{} sequences of {} tokens take {} in one layer; blocks may have {}",
                     spec.sequences, spec.prefix_tokens + spec.own_tokens,
                     FormatByteSize(layer_bytes), FormatByteSize(spec.memory_bytes));
  }
  const model::ModelConfig config = ConfigOf(spec.geometry, static_cast<std::uint32_t>(layers));
  ASHLAR_ASSIGN(kv::KvLayout layout,
                model::KvLayoutOf(config, SpecOf(spec.codecs), spec.block_tokens));
  ASHLAR_ASSIGN(kv::Arena arena, kv::Arena::Create(blocks * layout.group(0).block_bytes()));
  return std::unique_ptr<AttentionRig>(
      new AttentionRig(spec, config, std::move(layout), std::move(arena), pool));
}

AttentionRig::AttentionRig(const AttentionRigSpec& spec, model::ModelConfig config,
                           kv::KvLayout layout, kv::Arena arena, ThreadPool& pool)
    : spec_(spec),
      config_(std::move(config)),
      layout_(std::move(layout)),
      arena_(std::move(arena)),
      kernels_(kernels::KernelsFor(spec.isa)),
      attention_(config_, layout_, kernels_, pool, spec.sequences * spec.step_tokens),
      q_(spec.sequences * spec.step_tokens * config_.heads * config_.head_dim),
      k_(spec.sequences * spec.step_tokens * config_.kv_heads * config_.head_dim),
      v_(k_.size()),
      out_(q_.size()),
      open_bytes_(layout_.group(0).open_block_bytes() * spec.sequences) {
  for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = RandomFloat(0, i);
  for (std::size_t i = 0; i < k_.size(); ++i) k_[i] = RandomFloat(2, i);
  for (std::size_t i = 0; i < v_.size(); ++i) v_[i] = RandomFloat(3, i);
  if (open_bytes_.size() > 0) {
    for (std::size_t s = 0; s < spec.sequences; ++s) {
      open_.push_back(open_bytes_.data() + s * layout_.group(0).open_block_bytes());
    }
    std::memset(open_bytes_.data(), 0, open_bytes_.bytes());
  }
  FillBlocks(pool);
  MakeTables();
  for (const Prefix prefix : {Prefix::kPrivate, Prefix::kShared}) {
    Plan(prefix);
    StoreRows();
  }
}

// A first block is filled as a model's step would fill it, the others are copies.
void AttentionRig::FillBlocks(ThreadPool& pool) {
  const kv::LaneGroup& group = layout_.group(0);
  std::byte* const first = arena_.data();
  std::vector<std::byte> open(group.open_block_bytes());
  std::byte* const ring = open.data();
  const std::size_t row = std::size_t{config_.kv_heads} * config_.head_dim;
  std::vector<float> q(spec_.block_tokens * std::size_t{config_.heads} * config_.head_dim);
  std::vector<float> k(spec_.block_tokens * row), v(spec_.block_tokens * row);
  const model::GroupBlocks blocks = {
      .blocks = {&first, 1},
      .open = group.is_encoded() ? std::span(&ring, 1) : std::span<std::byte* const>{}};
  const model::AttentionChunk chunk = {
      .position = 0, .tokens = spec_.block_tokens, .first_row = 0, .groups = {&blocks, 1}};
  model::Attention filler(config_, layout_, kernels_, pool, spec_.block_tokens);
  filler.Plan({&chunk, 1});
  std::uint64_t random = 0;
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    for (float& value : k) value = RandomFloat(1, random++);
    for (float& value : v) value = RandomFloat(1, random++);
    filler.Store(layer, q.data(), k.data(), v.data());
  }
  const std::size_t block_bytes = layout_.group(0).block_bytes();
  pool.ParallelFor(arena_.bytes() / block_bytes, [&](std::size_t block, std::size_t) {
    if (block > 0) std::memcpy(arena_.data() + block * block_bytes, arena_.data(), block_bytes);
  });
}

void AttentionRig::MakeTables() {
  const std::size_t block_bytes = layout_.group(0).block_bytes();
  std::vector<std::size_t> order(arena_.bytes() / block_bytes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[RandomBits(12, 0, i) % (i + 1)]);
  }
  std::vector<std::byte*>& own = tables_[static_cast<std::size_t>(Prefix::kPrivate)];
  for (const std::size_t block : order) own.push_back(arena_.data() + block * block_bytes);
  std::vector<std::byte*>& shared = tables_[static_cast<std::size_t>(Prefix::kShared)];
  shared = own;
  const auto prefix = static_cast<std::ptrdiff_t>(spec_.prefix_tokens / spec_.block_tokens);
  for (std::size_t s = 1; s < spec_.sequences; ++s) {
    const auto first = static_cast<std::ptrdiff_t>(s * blocks_of_sequence());
    std::copy(own.begin(), own.begin() + prefix, shared.begin() + first);
  }
}

void AttentionRig::Plan(Prefix prefix) {
  const std::span<std::byte* const> table = tables_[static_cast<std::size_t>(prefix)];
  groups_.clear();
  chunks_.clear();
  groups_.reserve(spec_.sequences);
  for (std::size_t s = 0; s < spec_.sequences; ++s) {
    groups_.push_back({.blocks = table.subspan(s * blocks_of_sequence(), blocks_of_sequence()),
                       .open = open_.empty() ? std::span<std::byte* const>{}
                                             : std::span<std::byte* const>(open_).subspan(s, 1)});
    chunks_.push_back({.position = total_tokens() - spec_.step_tokens,
                       .tokens = spec_.step_tokens,
                       .first_row = s * spec_.step_tokens,
                       .groups = {&groups_.back(), 1}});
  }
  attention_.Plan(chunks_);
}

// K and V of the step's own tokens.
void AttentionRig::StoreRows() {
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    attention_.Store(layer, q_.data(), k_.data(), v_.data());
  }
}

void AttentionRig::Run(std::size_t layer) { attention_.Run(layer, q_.data(), out_.data()); }

std::uint64_t AttentionRig::SequenceKvBytes() const {
  return total_tokens() * layout_.bytes_per_token() / config_.layers;
}

double AttentionRig::Flops() const {
  // Of the step's tokens the first sees `first` keys, each next one more.
  const auto tokens = static_cast<double>(spec_.step_tokens);
  const double first = static_cast<double>(total_tokens()) - tokens + 1;
  const double keys = tokens * first + tokens * (tokens - 1) / 2;
  return 4.0 * config_.head_dim * config_.heads * keys * static_cast<double>(spec_.sequences);
}

}  // namespace ashlar::apps
