#include "model/testing/attention_rig.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::model {
namespace {

using kernels::testing::Random;

const kernels::KernelSet& Kernels() { return kernels::KernelsFor(kernels::BestIsa()); }

kv::KvLayout LayoutOf(const RigShape& shape) {
  kv::KvLayoutSpec spec = {.block_tokens = shape.block_tokens, .groups = {}};
  for (std::uint32_t layer = 0; layer < shape.groups.size(); ++layer) {
    const RigGroup& group = shape.groups[layer];
    spec.groups.push_back({.name = "layer " + std::to_string(layer),
                           .lanes = kv::LanesOf({&layer, 1}, shape.kv_heads),
                           .key_dim = shape.head_dim,
                           .value_dim = shape.spec.latent_dim > 0 ? 0 : shape.head_dim,
                           .key_codec = group.codecs.key,
                           .value_codec = group.codecs.value,
                           .window = group.window,
                           .sinks = group.sinks});
  }
  Result<kv::KvLayout> layout = kv::KvLayout::Create(std::move(spec));
  ASHLAR_CHECK(layout.ok(), "{}", layout.error().message);
  return *std::move(layout);
}

ModelConfig ConfigOf(const RigShape& shape) {
  ModelConfig config;
  config.layers = static_cast<std::uint32_t>(shape.groups.size());
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.hidden = shape.heads * shape.head_dim;
  return config;
}

}  // namespace

Text RandomText(std::size_t tokens, std::uint64_t seed) {
  Random random(seed);
  Text text(tokens);
  for (std::uint64_t& token : text) token = 1000 + random.Below(1'000'000);
  return text;
}

KvCodec SampleCodec(std::size_t kind, std::size_t seed) {
  const KvCodecKind k = AllKvCodecKinds()[kind % kSampleRound];
  return {.kind = k, .is_rotated = !IsRaw(k) && seed % 2 == 1};
}

RigShape SampleShape(std::size_t seed) {
  constexpr std::uint32_t kHeads[][2] = {{3, 3}, {6, 2}, {4, 1}, {9, 3}};
  constexpr std::uint32_t kDims[] = {64, 80, 96, 128, 256};
  constexpr std::uint32_t kBlocks[] = {16, 32, 64};
  const std::size_t round = seed / kSampleRound;
  RigShape shape;
  shape.heads = kHeads[(seed + round) % 4][0];
  shape.kv_heads = kHeads[(seed + round) % 4][1];
  shape.head_dim = kDims[seed % 5];
  shape.block_tokens = kBlocks[(seed + round) % 3];
  shape.groups = {
      {.codecs = {SampleCodec(seed, seed + round), SampleCodec(5 * seed + 3 + round, seed / 2)}}};
  shape.open_blocks = 1 + seed % 3;
  return shape;
}

std::string NameOf(const RigShape& shape) {
  std::string name = std::to_string(shape.heads) + "q" + std::to_string(shape.kv_heads) + "kv" +
                     std::to_string(shape.head_dim) + "_blocks" +
                     std::to_string(shape.block_tokens);
  for (const RigGroup& group : shape.groups) {
    name += "_" + ashlar::NameOf(group.codecs.key) + "_" + ashlar::NameOf(group.codecs.value);
  }
  return name;
}

// Logits of about 2.7 in a head of 64 channels scaled by 1 / 8; values that do not average out to
// nothing.
TokenRows RowsOf(const RigShape& shape, std::size_t layer, std::uint64_t token,
                 std::uint64_t position) {
  Random random(RandomBits(layer, token, position));
  const bool is_latent = shape.spec.latent_dim > 0;
  TokenRows rows{.q = random.Floats(shape.heads * shape.head_dim, 4.0f),
                 .k = random.Floats(shape.kv_heads * shape.head_dim, 2.0f),
                 .v = random.Floats(is_latent ? 0 : shape.kv_heads * shape.head_dim)};
  for (float& value : is_latent ? rows.k : rows.v) value += 0.5f;
  if (token == kInfiniteKeyToken) rows.k.back() = std::numeric_limits<float>::infinity();
  if (token == kHugeValueToken) (is_latent ? rows.k : rows.v)[3] = 1e6f;
  return rows;
}

// --- The rig ---

AttentionRig::AttentionRig(const RigShape& shape, std::size_t max_tokens)
    : shape_(shape), layout_(LayoutOf(shape)), config_(ConfigOf(shape)) {
  for (std::size_t t = 0; t < kMaxThreads; ++t) {
    pools_[t] = std::make_unique<ThreadPool>(t + 1);
    attentions_[t] = std::make_unique<Attention>(config_, layout_, Kernels(), *pools_[t],
                                                 max_tokens, shape_.spec);
  }
}

// Memory that reads as NaN in every raw format.
std::byte* AttentionRig::NewBlock(std::size_t bytes) {
  memory_.emplace_back(bytes);
  std::memset(memory_.back().data(), 0xFF, bytes);
  return memory_.back().data();
}

AttentionRig::Sequence AttentionRig::NewSequence() {
  Sequence sequence;
  for (const kv::LaneGroup& group : layout_.groups()) {
    Table table;
    for (std::size_t i = 0; group.is_encoded() && i < shape_.open_blocks; ++i) {
      table.open.push_back(NewBlock(group.open_block_bytes()));
    }
    sequence.groups.push_back(std::move(table));
  }
  return sequence;
}

AttentionRig::Sequence AttentionRig::Clone(const Sequence& from, std::size_t shared_tokens) {
  Sequence clone = from;
  for (std::size_t g = 0; g < clone.groups.size(); ++g) {
    const auto copy = [&](std::byte*& block, std::size_t bytes) {
      if (block == nullptr) return;
      const std::byte* const bytes_from = block;
      block = NewBlock(bytes);
      std::memcpy(block, bytes_from, bytes);
    };
    const kv::LaneGroup& group = layout_.group(g);
    const std::size_t shared = std::min(shared_tokens, from.text.size()) / shape_.block_tokens;
    Table& table = clone.groups[g];
    for (std::size_t b = shared; b < table.blocks.size(); ++b) {
      copy(table.blocks[b], group.block_bytes());
    }
    for (std::byte*& block : table.open) copy(block, group.open_block_bytes());
  }
  return clone;
}

std::vector<std::vector<float>> AttentionRig::Step(std::span<const Part> parts, const How& how) {
  std::vector<std::vector<GroupBlocks>> groups(parts.size());
  std::vector<AttentionChunk> chunks;
  std::size_t rows = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    Sequence& sequence = *parts[p].sequence;
    const std::size_t end = sequence.text.size() + parts[p].tokens.size();
    for (std::size_t g = 0; g < sequence.groups.size(); ++g) {
      Table& table = sequence.groups[g];
      while (table.blocks.size() < layout_.BlocksNeeded(end)) {
        table.blocks.push_back(NewBlock(layout_.group(g).block_bytes()));
      }
      groups[p].push_back({.blocks = table.blocks, .open = table.open});
    }
    chunks.push_back({.position = sequence.text.size(),
                      .tokens = parts[p].tokens.size(),
                      .first_row = rows,
                      .groups = groups[p],
                      .parents = parts[p].parents});
    rows += parts[p].tokens.size();
  }
  last_ = attentions_[how.threads - 1].get();
  last_->Plan(chunks);
  if (how.what == Do::kPlan) return {};

  std::vector<std::vector<float>> results(parts.size());
  const std::size_t layers = shape_.groups.size();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    TokenRows all;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (std::size_t t = 0; t < parts[p].tokens.size(); ++t) {
        const TokenRows one = RowsOf(shape_, layer, parts[p].tokens[t],
                                     chunks[p].position + TreeDepth(parts[p].parents, t));
        all.q.insert(all.q.end(), one.q.begin(), one.q.end());
        all.k.insert(all.k.end(), one.k.begin(), one.k.end());
        all.v.insert(all.v.end(), one.v.begin(), one.v.end());
      }
    }
    last_->Store(layer, all.q.data(), all.k.data(), all.v.data());
    if (how.what == Do::kStore) continue;
    std::vector<float> out(rows * shape_.width(), std::numeric_limits<float>::quiet_NaN());
    last_->Run(layer, all.q.data(), out.data(), how.tap);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      results[p].resize(chunks[p].tokens * layers * shape_.width());
      for (std::size_t t = 0; t < chunks[p].tokens; ++t) {
        std::copy_n(out.data() + (chunks[p].first_row + t) * shape_.width(), shape_.width(),
                    results[p].data() + (t * layers + layer) * shape_.width());
      }
    }
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (!last_->IsRefused(p) && parts[p].parents.empty()) Append(parts[p]);
  }
  return results;
}

// The blocks that a window has passed are gone.
void AttentionRig::Append(const Part& part) {
  Sequence& sequence = *part.sequence;
  sequence.text.insert(sequence.text.end(), part.tokens.begin(), part.tokens.end());
  for (std::size_t g = 0; g < sequence.groups.size(); ++g) {
    const kv::LaneGroup& group = layout_.group(g);
    const std::uint64_t live = group.FirstLiveBlock(sequence.text.size());
    for (std::uint64_t b = group.sink_blocks(); b < live; ++b) {
      sequence.groups[g].blocks[b] = nullptr;
    }
  }
}

std::vector<float> AttentionRig::Step(Sequence& sequence, std::span<const std::uint64_t> tokens,
                                      const How& how) {
  const Part part = {&sequence, tokens};
  std::vector<std::vector<float>> results = Step({&part, 1}, how);
  return results.empty() ? std::vector<float>{} : std::move(results[0]);
}

void AttentionRig::Fill(Sequence& sequence, std::span<const std::uint64_t> tokens,
                        std::size_t piece) {
  for (std::size_t at = 0; at < tokens.size(); at += piece) {
    (void)Step(sequence, tokens.subspan(at, std::min(piece, tokens.size() - at)),
               {.what = Do::kStore});
  }
}

// --- The oracle ---

AttentionOracle::AttentionOracle(const RigShape& shape, std::size_t layer,
                                 std::span<const std::uint64_t> text)
    : shape_(shape), layer_(layer), text_(text.begin(), text.end()) {
  const CodecPair& codecs = shape.groups[layer].codecs;
  const bool is_latent = shape.spec.latent_dim > 0;
  lanes_.assign(shape.kv_heads, kernels::testing::Lane({.key_kind = codecs.key.kind,
                                                        .value_kind = codecs.value.kind,
                                                        .head_dim = shape.head_dim,
                                                        .value_dim = is_latent ? 0 : shape.head_dim,
                                                        .block_tokens = shape.block_tokens,
                                                        .latent_dim = shape.spec.latent_dim}));
  for (std::uint64_t position = 0; position < text_.size(); ++position) {
    TokenRows rows = RowsOf(shape, layer, text_[position], position);
    for (std::size_t head = 0; head < shape.kv_heads; ++head) {
      float* const k = rows.k.data() + head * shape.head_dim;
      float* const v = is_latent ? nullptr : rows.v.data() + head * shape.head_dim;
      if (codecs.key.is_rotated) Kernels().hadamard(k, shape.head_dim);
      if (codecs.value.is_rotated && !is_latent) Kernels().hadamard(v, shape.head_dim);
      lanes_[head].Append(Kernels(), k, v);
    }
  }
}

bool AttentionOracle::Sees(std::uint64_t position, std::uint64_t key) const {
  const RigGroup& group = shape_.groups[layer_];
  return key <= position &&
         (group.window == 0 || key + group.window > position || key < group.sinks);
}

// As the row sees it, rotated back.
std::vector<float> AttentionOracle::Unrotated(KvRole role, std::size_t kv_head, std::uint64_t token,
                                              std::uint64_t own_block) const {
  std::vector<float> row = lanes_[kv_head].Seen(role, token, own_block);
  const CodecPair& codecs = shape_.groups[layer_].codecs;
  const bool is_rotated = role == KvRole::kKey ? codecs.key.is_rotated : codecs.value.is_rotated;
  if (is_rotated) Kernels().hadamard(row.data(), row.size());
  return row;
}

AttentionOracle::Row AttentionOracle::At(std::uint64_t position) const {
  const std::size_t dim = shape_.head_dim;
  const std::size_t value_dim = shape_.value_dim();
  const std::size_t group = shape_.heads / shape_.kv_heads;
  const AttentionSpec& spec = shape_.spec;
  const double scale = spec.scale > 0 ? spec.scale : 1.0 / std::sqrt(static_cast<double>(dim));
  const std::vector<float> q = RowsOf(shape_, layer_, text_[position], position).q;
  Row row{.out = std::vector<double>(shape_.width(), 0.0),
          .logits = std::vector<double>(shape_.heads * text_.size(),
                                        std::numeric_limits<double>::quiet_NaN()),
          .lse = {}};
  std::vector<double> sums(shape_.heads, 0.0);
  for (std::size_t head = 0; head < shape_.heads; ++head) {
    if (!spec.sink_logits.empty()) {
      sums[head] = std::exp(spec.sink_logits[layer_ * shape_.heads + head]);
    }
  }
  for (std::uint64_t t = 0; t <= position; ++t) {
    if (!Sees(position, t)) continue;
    for (std::size_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
      const std::uint64_t own = position / shape_.block_tokens;
      const std::vector<float> k = Unrotated(KvRole::kKey, kv_head, t, own);
      const std::vector<float> v =
          spec.latent_dim > 0 ? k : Unrotated(KvRole::kValue, kv_head, t, own);
      for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        double logit = 0.0;
        for (std::size_t c = 0; c < dim; ++c) logit += scale * q[head * dim + c] * k[c];
        if (spec.softcap > 0) logit = spec.softcap * std::tanh(logit / spec.softcap);
        row.logits[head * text_.size() + t] = logit;
        sums[head] += std::exp(logit);
        for (std::size_t c = 0; c < value_dim; ++c) {
          row.out[head * value_dim + c] += std::exp(logit) * v[c];
        }
      }
    }
  }
  for (std::size_t head = 0; head < shape_.heads; ++head) {
    row.lse.push_back(std::log(sums[head]));
    for (std::size_t c = 0; c < value_dim; ++c) row.out[head * value_dim + c] /= sums[head];
  }
  return row;
}

double AttentionOracle::ErrorOf(std::span<const float> got, std::span<const double> want) {
  double error = 0.0;
  double magnitude = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i])) return std::numeric_limits<double>::infinity();
    error = std::max(error, std::abs(got[i] - want[i]));
    magnitude = std::max(magnitude, std::abs(want[i]));
  }
  return error / magnitude;
}

double AttentionOracle::Tolerance() const {
  const KvCodecKind key = shape_.groups[layer_].codecs.key.kind;
  const KvCodecKind value = shape_.groups[layer_].codecs.value.kind;
  const bool is_key_plain = IsRaw(key) || key == KvCodecKind::kFp8;
  if (is_key_plain && IsRaw(value)) return 1e-5;
  if (!is_key_plain && kernels::QueryDigits(key) == 1) return 3e-2;
  return value == KvCodecKind::kKc4 || value == KvCodecKind::kKc2 ? 3e-3 : 5e-4;
}

}  // namespace ashlar::model
