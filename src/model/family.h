// The architectures we run, as data: what a GGUF file of each one leaves unsaid. Nothing else knows
// their names.
//
// A tensor is what its name says in every family; a row here says which of them a layer has.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/config.h"

namespace ashlar::model {

struct Family {
  std::string_view architecture;
  RopePairs rope_pairs = RopePairs::kHalfSplit;
  NormKind norm = NormKind::kRms;
  Activation activation = Activation::kSilu;
  bool is_gated = true;
  bool has_qk_norm = false;
  bool has_post_norms = false;
  bool is_parallel = false;
  bool has_positions = false;
  bool has_sink_logits = false;
  bool has_latent = false;
  bool scales_embedding = false;  // by sqrt(hidden)
  double attention_softcap = 0;   // unless the file says otherwise; 0: none
  double logit_softcap = 0;
  bool rounds_yarn = true;

  // Which layers have the window that the file names: all but each full_every-th; 0: all of them.
  std::uint32_t full_every = 0;
  std::uint32_t default_window = 0;  // when the file names none; 0: no layer has one
  double window_rope_base =
      0;  // of the windowed layers, which then have no scaling; 0: as the others
  std::uint32_t unrotated_every = 0;  // each so-manieth layer does not rotate; 0: all do
  // Models with so many layers scale logits by 1 / sqrt(hidden / heads); 0: none do.
  std::uint32_t wide_scale_layers = 0;

  ExpertsConfig::Gating gating = ExpertsConfig::Gating::kSoftmax;
  bool normalises_experts = true;  // unless the file says otherwise
  bool has_shared_gate = false;
};

std::span<const Family> Families();
// nullptr when there is none of that name.
const Family* FindFamily(std::string_view architecture);

}  // namespace ashlar::model
