// Weights of 4 bits as AWQ and GPTQ store them, put into GGUF's blocks of 32 without changing a
// value.
//
// Both mean, for input i of output o and its group g of inputs,
//
//   w[o][i] = (q[i][o] - zero[g][o]) * scale[g][o]        q, zero: 4 bits; scale: f16
//
//   layout       qweight (I32)    nibbles of a word           qzeros (I32)         scales (F16)
//   AWQ, gemm    [in, out / 8]    outputs 0 2 4 6 1 3 5 7     [groups, out / 8]    [groups, out]
//   GPTQ         [in / 8, out]    inputs in order             [groups, out / 8]    [groups, out]
//
// lowest nibble first. AWQ's qzeros are packed as its qweight; GPTQ's hold zero - 1 of outputs in
// order (in "gptq_v2" the zero itself). In GPTQ g_idx [in] (I32) says which group an input is of;
// without it, or with desc_act off, groups are neighbours.
//
// GGUF's Q5_0 means (code - 16) * d with codes of 5 bits and d an f16 for 32 inputs of an output:
// q - zero + 16 is such a code and the scale such a d, so no bit of a weight changes. Where every
// zero is 8, so is Q4_0, (code - 8) * d. With g_idx, columns are sorted by group, so that blocks of
// 32 have one scale; the order goes with the tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/model_file.h"
#include "hf/builder.h"
#include "hf/config.h"
#include "hf/tensors.h"

namespace ashlar::hf {

enum class Int4Layout : std::uint8_t { kAwq, kGptq };

struct Int4Spec {
  Int4Layout layout = Int4Layout::kGptq;
  std::uint64_t group = 0;        // inputs that share a scale; 0: all of them
  std::uint32_t zero_offset = 0;  // added to what qzeros hold
  bool is_symmetric = false;      // all zeros may be 8
};

// What `quantization_config` of config.json says; nothing when there is none. Errors: kUnsupported,
// naming the field and its value.
Result<std::optional<Int4Spec>> ReadInt4Spec(const Config& config);
// Of the object itself, also as quantize_config.json has it.
Result<Int4Spec> ParseInt4Spec(const Object& object, const std::string& where);

// The tensors of one matrix. Those that must be there are not null.
struct Int4Parts {
  const StoredTensor* qweight = nullptr;
  const StoredTensor* qzeros = nullptr;
  const StoredTensor* scales = nullptr;
  const StoredTensor* g_idx = nullptr;
};

// Adds the matrix as tensor `ours`, its rows in the order that `row_order` [out] gives, when it is
// not empty. `theirs` is the module's name in errors. Errors: kCorrupt (a part is missing or has
// another shape), kUnsupported (sizes that blocks of 32 do not fit).
Status AddInt4(const Int4Spec& spec, const Int4Parts& parts, const std::string& theirs,
               std::string ours, std::vector<std::uint32_t> row_order, Builder& builder);

}  // namespace ashlar::hf
