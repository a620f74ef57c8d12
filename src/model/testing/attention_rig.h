// Attention without a model: sequences of random rows, their blocks and open blocks in plain
// memory, and what each row's result is in f64.
//
// A text is a list of token ids; K, V and queries of a token are random numbers that depend on its
// id, its position and the layer, as those of a model do on a text of one token. So the result of a
// row is a function of the text, and nothing else that a test varies may change a bit of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_array.h"
#include "base/thread_pool.h"
#include "kernels/testing/lane.h"
#include "kv/layout.h"
#include "model/attention.h"
#include "model/kv_codec_spec.h"

namespace ashlar::model {

// Token ids with a meaning; all others are ordinary.
inline constexpr std::uint64_t kInfiniteKeyToken = 1;
inline constexpr std::uint64_t kHugeValueToken = 2;  // finite, but not in f16

using Text = std::vector<std::uint64_t>;

Text RandomText(std::size_t tokens, std::uint64_t seed);

struct RigGroup {
  CodecPair codecs = {};
  std::uint64_t window = 0;
  std::uint64_t sinks = 0;
};

struct RigShape {
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 64;
  std::uint32_t block_tokens = 16;
  std::vector<RigGroup> groups = {{}};  // layer i is all of group i
  AttentionSpec spec = {};
  std::size_t open_blocks = 1;  // of a sequence, in an encoded group

  std::size_t value_dim() const { return spec.latent_dim > 0 ? spec.latent_dim : head_dim; }
  std::size_t width() const { return heads * value_dim(); }  // of a result
};

// A sample in which every kind is a K's and a V's, beside every head dim, grouping and block size:
// each kind once in seeds [n * kSampleRound, (n + 1) * kSampleRound), rotated or not.
inline constexpr std::size_t kSampleRound = 12;
RigShape SampleShape(std::size_t seed);
KvCodec SampleCodec(std::size_t kind, std::size_t seed);
std::string NameOf(const RigShape& shape);

// q [heads, head_dim], k [kv_heads, head_dim], v [kv_heads, head_dim] (nothing in MLA).
struct TokenRows {
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};
TokenRows RowsOf(const RigShape& shape, std::size_t layer, std::uint64_t token,
                 std::uint64_t position);

class AttentionRig {
 public:
  static constexpr std::size_t kMaxThreads = 3;

  AttentionRig(const RigShape& shape, std::size_t max_tokens);

  struct Table {
    std::vector<std::byte*> blocks;
    std::vector<std::byte*> open;
  };
  struct Sequence {
    Text text;  // stored so far
    std::vector<Table> groups;
  };
  Sequence NewSequence();
  // The same text: whole blocks of its first `shared_tokens` are the same ones, all else is copied.
  Sequence Clone(const Sequence& from, std::size_t shared_tokens);

  struct Part {
    Sequence* sequence;
    std::span<const std::uint64_t> tokens;
    std::span<const std::int32_t> parents = {};  // a tree: not appended to the sequence's text
  };
  enum class Do : std::uint8_t { kPlan, kStore, kAttend };
  struct How {
    std::size_t threads = 1;
    Do what = Do::kAttend;
    const AttentionTap* tap = nullptr;
  };
  // One step. What is planned only, or refused, is not appended to the sequences' texts. Results by
  // part: [tokens, layers, width].
  std::vector<std::vector<float>> Step(std::span<const Part> parts, const How& how);
  std::vector<float> Step(Sequence& sequence, std::span<const std::uint64_t> tokens,
                          const How& how);
  // Stores tokens in pieces of at most `piece`.
  void Fill(Sequence& sequence, std::span<const std::uint64_t> tokens, std::size_t piece);

  // Of the last step.
  bool IsRefused(std::size_t part) const { return last_->IsRefused(part); }
  std::uint64_t planned_bytes(std::size_t group) const { return last_->planned_bytes(group); }
  std::size_t planned_items(std::size_t group) const { return last_->planned_items(group); }

  const RigShape& shape() const { return shape_; }
  const kv::KvLayout& layout() const { return layout_; }
  // K and V of one block in all kv heads of a group.
  std::uint64_t BlockBytes(std::size_t group) const { return layout_.group(group).block_bytes(); }

 private:
  std::byte* NewBlock(std::size_t bytes);
  void Append(const Part& part);

  RigShape shape_;
  kv::KvLayout layout_;
  ModelConfig config_;
  std::array<std::unique_ptr<ThreadPool>, kMaxThreads> pools_;
  std::array<std::unique_ptr<Attention>, kMaxThreads> attentions_;  // by threads - 1
  Attention* last_ = nullptr;
  std::deque<AlignedArray<std::byte>> memory_;
};

// What rows of a text may see in one layer, and their results in f64.
class AttentionOracle {
 public:
  AttentionOracle(const RigShape& shape, std::size_t layer, std::span<const std::uint64_t> text);

  struct Row {
    std::vector<double> out;     // [heads, value_dim]
    std::vector<double> logits;  // [heads, text]; NaN where it does not see
    std::vector<double> lse;     // [heads]
  };
  Row At(std::uint64_t position) const;

  // Largest error of a result, relative to its largest element.
  static double ErrorOf(std::span<const float> got, std::span<const double> want);
  // Of what At is compared with: roundings of f32 chains; weights of 15 bits where V is in
  // integers, queries of 15 bits or, for coarser keys, 7: an error of half a step in each of
  // head_dim channels, of which the softmax leaves what is not common to all keys.
  double Tolerance() const;

 private:
  bool Sees(std::uint64_t position, std::uint64_t key) const;
  std::vector<float> Unrotated(KvRole role, std::size_t kv_head, std::uint64_t token,
                               std::uint64_t own_block) const;

  RigShape shape_;
  std::size_t layer_;
  Text text_;
  std::vector<kernels::testing::Lane> lanes_;  // by kv head
};

}  // namespace ashlar::model
