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

// What attention can read today: K and V in one raw codec.
Result<DType> DTypeOf(const CodecPair& codecs) {
  if (codecs.key == codecs.value) {
    switch (codecs.key.kind) {
      case KvCodecKind::kF32:
        return DType::kF32;
      case KvCodecKind::kF16:
        return DType::kF16;
      case KvCodecKind::kBF16:
        return DType::kBF16;
      default:
        break;
    }
  }
  return MakeError(ErrorCode::kUnsupported,
                   "attention cannot read {}; it reads K and V in one of f32, f16, bf16",
                   NameOf(codecs));
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
  if (!text.starts_with("k=")) {
    ASHLAR_ASSIGN(const KvCodec codec, ParseKvCodec(text));
    return CodecPair{.key = codec, .value = codec};
  }
  const std::size_t comma = text.find(",v=");
  if (comma == std::string_view::npos) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "codec '{}'; give one for both, as q8, or each, as k=q8,v=q4", text);
  }
  CodecPair codecs;
  ASHLAR_ASSIGN(codecs.key, ParseKvCodec(text.substr(2, comma - 2)));
  ASHLAR_ASSIGN(codecs.value, ParseKvCodec(text.substr(comma + 3)));
  return codecs;
}

Status AttentionRig::Check(const CodecPair& codecs, std::uint32_t block_tokens) {
  ASHLAR_ASSIGN(const DType codec, DTypeOf(codecs));
  for (const AttentionGeometry& geometry : kGeometries) {
    ASHLAR_TRY(model::KvLayoutOf(ConfigOf(geometry, 1), codec, block_tokens));
  }
  return {};
}

Result<std::unique_ptr<AttentionRig>> AttentionRig::Create(const AttentionRigSpec& spec,
                                                           ThreadPool& pool) {
  ASHLAR_ASSIGN(const DType codec, DTypeOf(spec.codecs));
  ASHLAR_ASSIGN(const kv::KvLayout one_layer,
                model::KvLayoutOf(ConfigOf(spec.geometry, 1), codec, spec.block_tokens));
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
  ASHLAR_ASSIGN(kv::KvLayout layout, model::KvLayoutOf(config, codec, spec.block_tokens));
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
      out_(q_.size()) {
  for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = RandomFloat(0, i);
  FillBlocks(pool);
  MakeTables();
}

// The first block is written by the kernels, slot by slot, the others are copies.
void AttentionRig::FillBlocks(ThreadPool& pool) {
  std::vector<float> k(config_.head_dim), v(config_.head_dim);
  std::uint64_t random = 0;
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    for (std::size_t head = 0; head < config_.kv_heads; ++head) {
      const kv::LanePlace& place = attention_.PlaceOf(layer, head);
      for (std::size_t slot = 0; slot < spec_.block_tokens; ++slot) {
        for (float& value : k) value = RandomFloat(1, random++);
        for (float& value : v) value = RandomFloat(1, random++);
        kernels_.store_kv({.format = attention_.format(),
                           .k = k.data(),
                           .v = v.data(),
                           .head_dim = config_.head_dim,
                           .block_tokens = spec_.block_tokens,
                           .slot = slot,
                           .k_tile = arena_.data() + place.key_offset,
                           .v_tile = arena_.data() + place.value_offset});
      }
    }
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
  chunks_.clear();
  for (std::size_t s = 0; s < spec_.sequences; ++s) {
    chunks_.push_back({.position = total_tokens() - spec_.step_tokens,
                       .tokens = spec_.step_tokens,
                       .first_row = s * spec_.step_tokens,
                       .blocks = table.subspan(s * blocks_of_sequence(), blocks_of_sequence())});
  }
  attention_.Plan(chunks_);
}

void AttentionRig::Run(std::size_t layer) { attention_.Run(layer, q_.data(), out_.data()); }

std::uint64_t AttentionRig::SequenceKvBytes() const {
  return total_tokens() * layout_.bytes_per_token() / config_.layers;
}

std::uint64_t AttentionRig::KvBytes(Prefix /*prefix*/) const {
  return spec_.sequences * SequenceKvBytes();
}

double AttentionRig::Flops() const {
  // Of the step's tokens the first sees `first` keys, each next one more.
  const auto tokens = static_cast<double>(spec_.step_tokens);
  const double first = static_cast<double>(total_tokens()) - tokens + 1;
  const double keys = tokens * first + tokens * (tokens - 1) / 2;
  return 4.0 * config_.head_dim * config_.heads * keys * static_cast<double>(spec_.sequences);
}

}  // namespace ashlar::apps
