// The stored tensors of a folder as GGUF's tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "hf/builder.h"
#include "hf/family.h"
#include "hf/int4.h"
#include "hf/tensors.h"

namespace ashlar::hf {

struct WeightsContext {
  const Family& family;
  std::optional<Int4Spec> int4;
  bool is_tied = false;  // the head is the embedding table, whatever else is stored
  bool has_interleaved_qkv = false;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
};

// Adds a tensor for each stored one (for each matrix in int4) that the family's table knows; data
// stay where they are, those of another order are made when asked for. Errors: kUnsupported naming
// a tensor that the table does not know or whose dtype is not read; kCorrupt (shapes, names).
// `stored` must outlive the builder's contents.
Status AddWeights(const WeightsContext& context, std::span<const StoredTensor> stored,
                  Builder& builder);

}  // namespace ashlar::hf
