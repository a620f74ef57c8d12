// One sequence's cache under one codec spec, and the forward pass over it: what an evaluation needs
// of a model. Everything that knows how a codec becomes a layout and blocks become addresses is
// here, so that the measurements see tokens in and logits out.
//
// Memory: the blocks of max_tokens tokens and the workspace of `chunk_tokens` rows, both taken at
// construction (memory_bytes). The weights are the model's, shared by all.
// One owner thread, that of the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/kernel_set.h"
#include "kv/cache.h"
#include "model/forward.h"
#include "model/model.h"

namespace ashlar::eval {

// What a forward pass runs on. All must outlive what is made with it.
struct Machine {
  const model::Model& model;
  const kernels::KernelSet& kernels;
  ThreadPool& pool;
  model::Activations activations = model::Activations::kF32;
};

struct CacheShape {
  std::uint32_t block_tokens = 16;
  std::uint64_t max_tokens = 0;    // of the sequence; at least 1
  std::uint32_t chunk_tokens = 1;  // most tokens of one Append; at least 1
};

// The layout of a model's cache under a codec spec ("f16"). Errors: kInvalidArgument naming the
// spec and those there are; those of KvLayout::Create.
Result<kv::KvLayout> LayoutOf(const model::ModelConfig& config, std::string_view spec,
                              std::uint32_t block_tokens);

class CachedModel {
 public:
  // Errors: those of LayoutOf; kResourceExhausted when the memory is not there.
  static Result<std::unique_ptr<CachedModel>> Create(const Machine& machine, std::string_view spec,
                                                     const CacheShape& shape);

  const std::string& spec() const { return spec_; }
  // K and V of one token in all lanes, scales included.
  std::uint64_t bytes_per_token() const { return cache_->layout().bytes_per_token(); }
  std::uint64_t memory_bytes() const { return cache_->memory_bytes() + forward_.workspace_bytes(); }
  // Tokens since Restart.
  std::uint64_t size() const { return sequence_ ? sequence_->size() : 0; }

  // Forgets all tokens.
  void Restart();
  // Computes the next tokens. `logits` [tokens, vocab] f32, or empty: none are computed.
  // Preconditions: 1 to chunk_tokens tokens, max_tokens in all, ids below vocab. Error:
  // kUnsupported, naming the codec, when the model's keys or values are not finite in its format;
  // the tokens are then not appended, the logits mean nothing, and only Restart may follow.
  Status Append(std::span<const TokenId> tokens, std::span<float> logits);

 private:
  CachedModel(const Machine& machine, std::string spec, const CacheShape& shape,
              std::unique_ptr<SteadyClock> clock, std::unique_ptr<kv::KvCache> cache);

  std::string spec_;
  CacheShape shape_;
  std::uint32_t vocab_;
  std::unique_ptr<SteadyClock> clock_;
  std::unique_ptr<kv::KvCache> cache_;
  model::ForwardPass forward_;
  std::optional<kv::Sequence> sequence_;
};

}  // namespace ashlar::eval
