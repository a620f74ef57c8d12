// A scheduler driven as the engine drives one, over a memory of the test's.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "kv/cache.h"
#include "sched/kv_memory.h"
#include "sched/scheduler.h"
#include "sched/testing/scenario.h"

namespace ashlar::sched::testing {

class SchedulerTarget : public Target {
 public:
  explicit SchedulerTarget(const Scenario& scenario) : scheduler_(scenario.limits) {
    scheduler_.SetCost(scenario.cost);
  }

  void Submit(const ScenarioRequest& request) final;
  void Cancel(SequenceId id) final;
  const StepPlan* Step() final;
  bool has_work() const final { return !requests_.empty(); }

 protected:
  virtual Memory& memory() = 0;
  virtual void Enter(const ScenarioRequest& request) = 0;
  virtual void Commit(const StepItem& item) = 0;
  virtual void Generate(const ScenarioRequest& request, std::uint64_t index) = 0;
  virtual void Leave(SequenceId id) = 0;
  virtual void CheckMemory() = 0;

 private:
  void End(SequenceId id);

  Scheduler scheduler_;
  struct Running {
    const ScenarioRequest* request = nullptr;
    std::uint64_t generated = 0;
  };
  std::map<SequenceId, Running> requests_;
};

// Blocks that nobody shares. What a preempted sequence held stays, tail first to go, until others
// need the place. Now and then a sequence has to wait "for a prefix", by chance.
class NaiveMemory final : public Memory {
 public:
  NaiveMemory(const Scenario& scenario, std::uint64_t seed) : scenario_(scenario), seed_(seed) {}

  void Enter(const ScenarioRequest& request);
  void Commit(SequenceId id, std::uint32_t tokens) { texts_.at(id).computed += tokens; }
  void Know(SequenceId id) { ++texts_.at(id).known; }
  void Leave(SequenceId id);
  void Check() const;
  std::uint64_t live() const;

  Admission Admit(SequenceId id) override;
  Admission AdmitAtOnce(SequenceId id) override;
  bool Grow(SequenceId id, std::uint32_t tokens) override;
  void Preempt(SequenceId id) override;
  std::uint64_t TokensAtStake(SequenceId id) const override { return texts_.at(id).computed; }
  std::uint64_t CachedTokens(SequenceId id) override;

 private:
  struct Text {
    const ScenarioRequest* request = nullptr;
    std::uint64_t known = 0;
    std::uint64_t computed = 0;
    std::uint64_t held = 0;      // blocks
    std::uint64_t promised = 0;  // blocks
    std::uint64_t idle = 0;      // blocks left of what it had; 0 while it runs
    std::uint64_t idle_since = 0;
    bool is_running = false;
    bool is_ahead = false;   // was refused or preempted
    bool is_parked = false;  // was told to wait when it was last asked about
  };

  std::uint64_t BlocksOf(std::uint64_t tokens) const {
    return (tokens + scenario_.block_tokens - 1) / scenario_.block_tokens;
  }
  void MakePlace();
  void CheckOvertaking(const Text& text) const;

  const Scenario& scenario_;
  const std::uint64_t seed_;
  std::uint64_t calls_ = 0;
  std::map<SequenceId, Text> texts_;
};

class NaiveTarget final : public SchedulerTarget {
 public:
  NaiveTarget(const Scenario& scenario, std::uint64_t seed)
      : SchedulerTarget(scenario), memory_(scenario, seed) {}
  const NaiveMemory& naive() const { return memory_; }

 private:
  Memory& memory() override { return memory_; }
  void Enter(const ScenarioRequest& request) override { memory_.Enter(request); }
  void Commit(const StepItem& item) override { memory_.Commit(item.id, item.tokens); }
  void Generate(const ScenarioRequest& request, std::uint64_t) override {
    memory_.Know(request.id);
  }
  void Leave(SequenceId id) override { memory_.Leave(id); }
  void CheckMemory() override { memory_.Check(); }

  NaiveMemory memory_;
};

// Over the cache itself.
class KvTarget final : public SchedulerTarget {
 public:
  KvTarget(const Scenario& scenario, kv::KvCache& cache, kv::Reuse reuse = kv::Reuse::kOn)
      : SchedulerTarget(scenario),
        cache_(cache),
        memory_(cache, {.headroom_tokens = scenario.headroom_tokens,
                        .chunk = scenario.limits.prefill_chunk,
                        .reuse = reuse}) {
    scope_ = {.model_fingerprint = "model"};
  }

  // Of the sequence, if they are known beforehand; otherwise they are made up.
  void SetGenerated(SequenceId id, std::vector<TokenId> tokens) {
    generated_[id] = std::move(tokens);
  }
  std::uint64_t recomputed_tokens() const { return recomputed_; }

 private:
  Memory& memory() override { return memory_; }
  void Enter(const ScenarioRequest& request) override;
  void Commit(const StepItem& item) override;
  void Generate(const ScenarioRequest& request, std::uint64_t index) override;
  void Leave(SequenceId id) override;
  void CheckMemory() override;

  kv::KvCache& cache_;
  KvMemory memory_;
  kv::Scope scope_;
  std::map<SequenceId, KvText> texts_;
  std::map<SequenceId, std::vector<TokenId>> generated_;
  std::uint64_t recomputed_ = 0;
  std::uint64_t checks_ = 0;
};

}  // namespace ashlar::sched::testing
