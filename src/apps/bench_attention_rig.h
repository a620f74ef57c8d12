// The one place where `ashlar bench attention` meets model::Attention: a model's shape, blocks in
// an arena that lie as the cache's do, sequences over them, and steps.
//
// As in a real cache a block holds the lanes of all layers, so the tiles of one layer lie a block's
// bytes apart, and a sequence's blocks lie in random order. All blocks hold the same bytes, made by
// the kernels from random numbers: what they are does not change the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_array.h"
#include "base/kv_codec.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kv/arena.h"
#include "kv/layout.h"
#include "model/attention.h"
#include "model/config.h"
#include "model/kv_codec_spec.h"

namespace ashlar::apps {

// Attention's part of a model.
struct AttentionGeometry {
  std::string_view name;  // "32q8kv128"
  std::uint32_t heads;    // query heads
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  std::uint32_t layers;
};
std::span<const AttentionGeometry> AttentionGeometries();

using model::CodecPair;
std::string NameOf(const CodecPair& codecs);  // "q8"; where they differ, "k=q8,v=q4"
// The same, read; presets of two codecs as well. Error: kInvalidArgument.
Result<CodecPair> ParseCodecPair(std::string_view text);

struct AttentionRigSpec {
  AttentionGeometry geometry;
  CodecPair codecs;
  std::uint32_t block_tokens = 16;
  std::size_t sequences = 1;
  std::uint64_t prefix_tokens = 0;  // of each sequence; a multiple of block_tokens
  std::uint64_t own_tokens = 0;     // that follow; what no two sequences share
  std::size_t step_tokens = 1;      // of each sequence: its last ones
  std::uint64_t memory_bytes = 0;   // most bytes of blocks
  kernels::Isa isa = kernels::Isa::kReference;
};

class AttentionRig {
 public:
  enum class Prefix : std::uint8_t {
    kPrivate,  // every sequence has blocks of its own
    kShared,   // all have the blocks of the first one's prefix
  };

  // What Create says of codecs and blocks, before anything is measured. Errors: those of KvLayout.
  static Status Check(const CodecPair& codecs, std::uint32_t block_tokens);
  // Holds as many of the model's layers as fit into memory_bytes. Errors: kResourceExhausted when
  // not one fits; those of Check and Arena.
  static Result<std::unique_ptr<AttentionRig>> Create(const AttentionRigSpec& spec,
                                                      ThreadPool& pool);

  std::uint32_t layers() const { return config_.layers; }  // held

  // Cuts the step's work.
  void Plan(Prefix prefix);
  // Attention of the planned step in one layer.
  void Run(std::size_t layer);

  // Bytes of K and V that Run(layer) takes from the cache as planned, metadata included.
  std::uint64_t KvBytes() const { return attention_.planned_bytes(0); }
  // The same for one sequence alone.
  std::uint64_t SequenceKvBytes() const;
  // Of Run: 2 for each multiply-add with a key or a value that a query sees.
  double Flops() const;

 private:
  AttentionRig(const AttentionRigSpec& spec, model::ModelConfig config, kv::KvLayout layout,
               kv::Arena arena, ThreadPool& pool);
  void FillBlocks(ThreadPool& pool);
  void MakeTables();
  void StoreRows();
  std::uint64_t total_tokens() const { return spec_.prefix_tokens + spec_.own_tokens; }
  std::uint64_t blocks_of_sequence() const { return layout_.BlocksNeeded(total_tokens()); }

  AttentionRigSpec spec_;
  model::ModelConfig config_;
  kv::KvLayout layout_;
  kv::Arena arena_;
  const kernels::KernelSet& kernels_;
  model::Attention attention_;
  std::vector<std::byte*> tables_[2];  // by Prefix: [sequences, blocks_of_sequence()]
  std::vector<std::byte*> open_;       // one open block for every sequence, if the codec is encoded
  std::vector<model::GroupBlocks> groups_;
  std::vector<model::AttentionChunk> chunks_;
  // [sequences * step_tokens, heads or kv heads * head_dim].
  AlignedArray<float> q_, k_, v_, out_;
  AlignedArray<std::byte> open_bytes_;
};

}  // namespace ashlar::apps
