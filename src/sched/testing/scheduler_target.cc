#include "sched/testing/scheduler_target.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace ashlar::sched::testing {

// --- What the engine does ---

void SchedulerTarget::Submit(const ScenarioRequest& request) {
  requests_[request.id] = {.request = &request};
  Enter(request);
  scheduler_.Add({.id = request.id,
                  .tokens = request.prompt.size(),
                  .priority = request.priority,
                  .tenant = request.tenant,
                  .weight = request.weight});
}

void SchedulerTarget::Cancel(SequenceId id) {
  if (requests_.contains(id)) End(id);
}

void SchedulerTarget::End(SequenceId id) {
  ASHLAR_CHECK(scheduler_.Remove(id), "sequence {} is not there", id.value());
  Leave(id);
  requests_.erase(id);
}

const StepPlan* SchedulerTarget::Step() {
  const StepPlan& plan = scheduler_.Plan(memory());
  scheduler_.CheckInvariants();
  if (plan.items.empty() && plan.preempted.empty()) return nullptr;
  for (const StepItem& item : plan.items) {
    if (item.reaches_end) {
      Running& running = requests_.at(item.id);
      Generate(*running.request, running.generated++);
    }
  }
  for (const StepItem& item : plan.items) Commit(item);
  scheduler_.Commit();
  for (const StepItem& item : plan.items) {
    if (!item.reaches_end) continue;
    const Running& running = requests_.at(item.id);
    if (running.generated == running.request->generate) {
      End(item.id);
    } else {
      scheduler_.Append(item.id);
    }
  }
  CheckMemory();
  return &plan;
}

// --- NaiveMemory ---

void NaiveMemory::Enter(const ScenarioRequest& request) {
  texts_[request.id] = {.request = &request, .known = request.prompt.size()};
}

void NaiveMemory::Leave(SequenceId id) { texts_.erase(id); }

std::uint64_t NaiveMemory::live() const {
  std::uint64_t live = 0;
  for (const auto& [id, text] : texts_) live += text.held + text.promised;
  return live;
}

void NaiveMemory::Check() const {
  std::uint64_t idle = 0;
  std::uint64_t held = 0;
  for (const auto& [id, text] : texts_) {
    idle += text.idle;
    held += text.held;
  }
  ASHLAR_CHECK(live() <= scenario_.blocks && held + idle <= scenario_.blocks,
               "{} blocks live, {} held, {} idle", live(), held, idle);
}

// The oldest idle block goes when all places are taken; of one text the tail.
void NaiveMemory::MakePlace() {
  std::uint64_t taken = 0;
  Text* oldest = nullptr;
  for (auto& [id, text] : texts_) {
    taken += text.held + text.idle;
    if (text.idle == 0) continue;
    if (oldest == nullptr || text.idle_since < oldest->idle_since) oldest = &text;
  }
  if (taken < scenario_.blocks) return;
  ASHLAR_CHECK(oldest != nullptr, "no place for what was promised");
  --oldest->idle;
}

// Nobody new goes before whoever needs memory first.
void NaiveMemory::CheckOvertaking(const Text& text) const {
  if (text.is_ahead) return;
  for (const auto& [id, other] : texts_) {
    ASHLAR_CHECK(other.is_running || !other.is_ahead || other.is_parked ||
                     other.request->priority > text.request->priority,
                 "sequence {} overtakes {}", text.request->id.value(), id.value());
  }
}

Admission NaiveMemory::Admit(SequenceId id) {
  Text& text = texts_.at(id);
  const bool is_any_running =
      std::ranges::any_of(texts_, [](const auto& entry) { return entry.second.is_running; });
  if (is_any_running && RandomBits(seed_, 5, calls_++) % 8 == 0) {
    text.is_parked = true;
    return {.answer = Admission::Answer::kWait,
            .pending_tokens = 1 + RandomBits(seed_, 6, calls_) % 20};
  }
  return AdmitAtOnce(id);
}

Admission NaiveMemory::AdmitAtOnce(SequenceId id) {
  Text& text = texts_.at(id);
  text.is_parked = false;
  const std::uint64_t whole = std::max(text.known, text.request->stored_tokens());
  const std::uint64_t promised =
      BlocksOf(text.known + std::min(whole - text.known, scenario_.headroom_tokens));
  if (live() + promised > scenario_.blocks) {
    text.is_ahead = true;
    return {};
  }
  CheckOvertaking(text);
  text.held = std::min(text.idle, (text.known - 1) / scenario_.block_tokens);
  text.idle = 0;
  text.promised = promised - text.held;
  text.computed = text.held * scenario_.block_tokens;
  text.is_running = true;
  text.is_ahead = false;
  return {.answer = Admission::Answer::kAdmitted, .cached_tokens = text.computed};
}

bool NaiveMemory::Grow(SequenceId id, std::uint32_t tokens) {
  Text& text = texts_.at(id);
  const std::uint64_t end = BlocksOf(text.computed + tokens);
  const std::uint64_t more = end - std::min(end, text.held);
  const std::uint64_t asked = more - std::min(more, text.promised);
  if (live() + asked > scenario_.blocks) return false;
  text.promised += asked;
  for (; text.held < end; ++text.held, --text.promised) MakePlace();
  return true;
}

void NaiveMemory::Preempt(SequenceId id) {
  Text& text = texts_.at(id);
  text.idle = text.computed / scenario_.block_tokens;
  text.idle_since = ++calls_;
  text.held = text.promised = text.computed = 0;
  text.is_running = false;
  text.is_ahead = true;
}

// Some prompts are said to be cached, others not.
std::uint64_t NaiveMemory::CachedTokens(SequenceId id) {
  const Text& text = texts_.at(id);
  return RandomBits(seed_, 9, id.value()) % 3 == 0 ? text.known - 1 : 0;
}

// --- KvTarget ---

void KvTarget::Enter(const ScenarioRequest& request) {
  KvText& text = texts_[request.id];
  text.scope = scope_;
  text.digest = kv::DigestOf(scope_);
  text.tokens = request.prompt;
  text.max_tokens = request.stored_tokens();
  memory_.Add(request.id, text);
}

void KvTarget::Commit(const StepItem& item) {
  KvText& text = texts_.at(item.id);
  KvMemory::Commit(text, std::span(text.tokens).subspan(item.position, item.tokens));
}

void KvTarget::Generate(const ScenarioRequest& request, std::uint64_t index) {
  const auto known = generated_.find(request.id);
  const TokenId token = known != generated_.end()
                            ? known->second.at(index)
                            : static_cast<TokenId>(RandomBits(9, request.id.value(), index) % 250);
  texts_.at(request.id).tokens.push_back(token);
}

void KvTarget::Leave(SequenceId id) {
  memory_.Remove(id);
  recomputed_ += texts_.at(id).recomputed_tokens;
  texts_.erase(id);
}

void KvTarget::CheckMemory() {
  if (++checks_ % 8 == 0) cache_.CheckInvariants();
  ASHLAR_CHECK(!texts_.empty() || cache_.live_bytes() == 0, "{} bytes of nobody",
               cache_.live_bytes());
}

}  // namespace ashlar::sched::testing
