// How long a step lasts, for a model and a machine. Two kinds, both from JSON:
//
//   measured   {"step_ns": ..., "rows_ns": [[1, ...], [16, ...]], ...}   (`ashlar bench cost`)
//              step_ns + rows_ns at the step's tokens + prefill_pair_ns * pairs of prefills +
//              decode_pair_ns * pairs of decodes + sequence_ns * sequences in the step +
//              kv_byte_ns * bytes of K and V read and written
//   device     {"device": {"flops_per_s": ..., "bytes_per_s": ...}}      (published numbers)
//              step_ns + the longer of computing and of moving bytes, each at its share of the peak
//
// Every number is a finite one from 0; those left out are 0 (shares: 1). `request_ns` is what a
// request takes on its way to the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/layout.h"
#include "sched/step_plan.h"

namespace ashlar::simulate {

// What a step does. Pairs are (query, key) pairs that attention computes, per lane: the mean over
// the lanes, of which some may see a window only.
struct StepWork {
  std::uint64_t tokens = 0;
  std::uint64_t sequences = 0;
  double prefill_pairs = 0;
  double decode_pairs = 0;
  double kv_bytes = 0;  // K and V read and written: a chunk reads what it attends to once
};

class StepMeter {
 public:
  // The layout must outlive the meter.
  explicit StepMeter(const kv::KvLayout& layout);
  // O(items x groups).
  StepWork WorkOf(const sched::StepPlan& plan) const;

 private:
  struct Group {
    std::uint64_t reach = 0;  // the most keys that a query sees; 0: all
    double share = 0;         // of all lanes
    double bytes_per_token = 0;
  };
  std::vector<Group> groups_;
};

// What a device cost needs to know of the model.
struct ModelWork {
  double weight_bytes = 0;     // read in every step
  double expert_bytes = 0;     // of all experts, read as far as a token needs them
  double expert_share = 0;     // of the experts, that one token needs
  double flops_per_token = 0;  // of the matrices
  double flops_per_pair = 0;   // of attention, all layers

  // Read in a step of so many tokens, each of which needs experts by chance.
  double WeightBytes(double tokens) const;
};

class CostModel {
 public:
  struct Row {
    double tokens = 0;
    double ns = 0;
  };
  struct Measured {
    double step_ns = 0;
    std::vector<Row> rows_ns;  // by tokens; linear in between and beyond
    double prefill_pair_ns = 0;
    double decode_pair_ns = 0;
    double sequence_ns = 0;
    double kv_byte_ns = 0;
  };
  struct Device {
    double step_ns = 0;
    double flops_per_s = 0;
    double bytes_per_s = 0;
    double flops_share = 1;
    double bytes_share = 1;
  };

  static CostModel Of(Measured measured, double request_ns = 0);
  static CostModel Of(const Device& device, const ModelWork& work, double request_ns = 0);
  // Errors: kCorrupt naming `name`, the field and what is right.
  static Result<CostModel> Parse(std::string_view json, std::string_view name,
                                 const ModelWork& work);
  // JSON that Parse reads, of a measured one.
  static std::string ToJson(const Measured& measured, double request_ns);

  // A device by name, with its published numbers; nullopt: none has it.
  static std::optional<Device> FindDevice(std::string_view name);
  static std::string DeviceNames();  // "a100-80g, h100, ..."

  std::int64_t StepNs(const StepWork& work) const;
  std::int64_t request_ns() const { return request_ns_; }

 private:
  bool is_device_ = false;
  Measured measured_;
  Device device_;
  ModelWork work_;
  std::int64_t request_ns_ = 0;
};

}  // namespace ashlar::simulate
