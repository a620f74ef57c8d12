// What an engine remembers of itself for those who watch it: histograms, reasons of misses, the
// last steps and sequences. Recording copies a few numbers and allocates nothing.
//
// Thread: the engine's only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/control.h"
#include "engine/step_observer.h"

namespace ashlar::engine {

class Monitor final : public StepObserver {
 public:
  static constexpr std::size_t kSteps = 8192;      // remembered, 1 MiB
  static constexpr std::size_t kSequences = 4096;  // remembered, 0.4 MiB

  Monitor();

  void OnStep(const StepRecord& record, const sched::StepPlan& plan) override;
  void OnAdmitted(const AdmissionRecord& admission) override;
  void OnFirstToken(std::int64_t ttft_ns) override;
  void OnNextToken(std::int64_t itl_ns) override;
  void OnEnd(const SequenceRecord& sequence) override;

  // Adds what is counted here.
  void AddTo(EngineReport& report) const;
  EngineTrace Read(const TraceWindow& window, std::int64_t now_ns) const;

 private:
  // The last values of many.
  template <typename T>
  class Ring {
   public:
    explicit Ring(std::size_t capacity) : values_(capacity) {}
    void Push(const T& value) { values_[count_++ % values_.size()] = value; }
    std::size_t size() const { return std::min<std::size_t>(count_, values_.size()); }
    // 0: the newest. Precondition: age < size().
    const T& FromNewest(std::size_t age) const {
      return values_[(count_ - 1 - age) % values_.size()];
    }

   private:
    std::vector<T> values_;
    std::size_t count_ = 0;
  };

  EngineHistograms histograms_;
  std::array<std::uint64_t, kv::kMissReasons> misses_ = {};
  std::array<std::uint64_t, kv::kMissReasons> missed_tokens_ = {};
  Ring<StepRecord> steps_{kSteps};
  Ring<SequenceRecord> sequences_{kSequences};
};

}  // namespace ashlar::engine
