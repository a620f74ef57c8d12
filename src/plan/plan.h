// A plan: the numbers of one model and one workload, put together once; text, JSON and HTML only
// print them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/kv_codec_spec.h"
#include "plan/capacity.h"
#include "plan/kv_need.h"
#include "plan/rules_of_thumb.h"
#include "plan/subject.h"

namespace ashlar::plan {

struct PlanOptions {
  model::KvCodecSpec codec = model::KvCodecSpec::Of({});
  std::uint32_t block_tokens = 16;
  Workload workload;          // context 0: what the model was trained for
  std::string weight_format;  // "": as published, or as the file has it
  // What fits: in all of a machine's memory, or in the arena alone. At most one.
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> arena_bytes;
  std::string memory_source;       // "this machine"; "" for a number that was given
  std::uint64_t margin_bytes = 0;  // of memory_bytes
  std::uint64_t max_step_tokens = 512;
  std::size_t threads = 1;
};

// One way to store K and V, beside the others.
struct CodecRow {
  std::string name;
  std::string spec;             // "k=hq8,v=hq4,edge=2@hq8"
  double bits_per_element = 0;  // scales and padding included
  KvNeed need;
  std::vector<std::uint64_t> curve;  // bytes of all sequences at each of Plan::contexts
  // Where memory is known:
  std::optional<std::uint64_t> sequences;  // of the workload's context that fit
  std::optional<std::uint64_t> context;    // that the workload's sequences may have
  std::vector<std::uint64_t> frontier;     // sequences that fit, at each of Plan::contexts
};

struct WeightRow {
  std::string format;
  std::uint64_t bytes = 0;
  bool is_estimate = true;
  bool is_chosen = false;
};

struct Plan {
  Subject subject;
  PlanOptions options;  // workload.context filled in
  CodecRow chosen;      // of options.codec
  std::vector<CodecRow> codecs;
  std::vector<std::uint64_t> contexts;  // 1k, 2k, ... of curves and frontiers
  std::uint64_t parameters = 0;
  bool are_parameters_exact = false;
  std::vector<WeightRow> weights;
  std::uint64_t weights_bytes = 0;  // of the chosen row
  std::uint64_t loaded_bytes = 0;   // of them as the engine holds them
  // An arena that the workload fits in; nullopt when it has too many blocks to be numbered.
  std::optional<std::uint64_t> arena_for_bytes;
  std::uint64_t workspace_bytes = 0;   // of the forward pass; exact for a file that this build runs
  std::optional<MemoryBudget> budget;  // with memory_bytes
  std::optional<std::uint64_t> arena_bytes;  // that what fits is counted in
  std::vector<RuleOfThumb> rules;
};

// Errors: kInvalidArgument naming the option, its value and what is right; as LayoutOf and
// KvNeedOf.
Result<Plan> MakePlan(Subject subject, PlanOptions options);

}  // namespace ashlar::plan
