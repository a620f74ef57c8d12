// How large the arrays of a forward pass are, from sizes alone: the pass takes its memory by these
// numbers, and a planner counts with them before there is a model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/layout.h"
#include "model/activations.h"
#include "model/config.h"

namespace ashlar::model {

// Rows of logits computed together: enough to reuse the weights, small against the workspace.
inline constexpr std::size_t kLogitRows = 32;

// Of attention, for at most max_tokens rows a step.
struct AttentionSizes {
  std::size_t prepared_stride = 0;   // bytes of a query row as integers
  std::size_t kept_tile_bytes = 0;   // raw tiles of one block and head
  std::size_t path_block_bytes = 0;  // raw and sealed tiles of one block and head
  std::size_t path_bytes = 0;        // of one worker
  std::size_t scratch_floats = 0;    // of one worker
  // All of them, of all workers.
  std::size_t query_floats = 0;
  std::size_t prepared_bytes = 0;
  std::size_t kept_bytes = 0;
  std::size_t all_path_bytes = 0;
  std::size_t all_scratch_floats = 0;
  std::size_t partial_floats = 0;

  static AttentionSizes Of(const ModelConfig& config, const kv::KvLayout& layout,
                           std::size_t max_tokens, std::size_t threads);
  std::uint64_t bytes() const;
};

// In floats; forward.h says what each array holds.
struct ForwardSizes {
  std::size_t logit_rows = 0;  // computed at a time
  std::size_t hidden = 0;      // residual, normed, projected: each
  std::size_t queries = 0;
  std::size_t keys = 0;
  std::size_t values = 0;
  std::size_t attended = 0;
  std::size_t gate = 0;
  std::size_t up = 0;
  std::size_t angles = 0;  // cosine, sine: each
  std::size_t logits = 0;
  std::size_t wide_queries = 0;
  std::size_t low_queries = 0;
  std::size_t latent_values = 0;
  std::size_t expert_rows = 0;  // a number of rows
  std::size_t router = 0;
  std::size_t expert_hidden = 0;  // in, out: each
  std::size_t expert_wide = 0;    // gate, up: each
  std::size_t shared_out = 0;
  std::size_t gathered = 0;           // inputs in the order of their weights' columns
  std::size_t scratch = 0;            // of one worker
  std::size_t all_scratch = 0;        // of all
  std::size_t activation_blocks = 0;  // of kernels/activations.h, not floats
  AttentionSizes attention;

  // What a ForwardPass over a model of this description takes for steps of at most max_tokens rows.
  static ForwardSizes Of(const ModelConfig& config, const kv::KvLayout& layout,
                         std::size_t max_tokens, std::size_t threads, Activations activations);
  std::uint64_t bytes() const;
};

}  // namespace ashlar::model
