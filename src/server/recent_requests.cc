#include "server/recent_requests.h"

#include <algorithm>
#include <utility>

#include "kv/miss.h"

namespace ashlar::server {
namespace {

double Milliseconds(std::int64_t ns) { return static_cast<double>(ns / 1000) / 1000; }

Json AdmissionJson(const engine::AdmissionRecord& admission) {
  const kv::LookupReport& lookup = admission.lookup;
  return {{"is_resumed", admission.is_resumed}, {"queue_ms", Milliseconds(admission.queue_ns)},
          {"tokens", lookup.prompt_tokens},     {"hit_tokens", {{"ram", lookup.hit_tokens}}},
          {"reason", NameOf(lookup.reason)},    {"position", lookup.position},
          {"explanation", lookup.Explain()}};
}

Json EndingJson(const SequenceEnding& end) {
  return {
      {"finish", NameOf(end.ending)},         {"completion_tokens", end.completion_tokens},
      {"preemptions", end.usage.preemptions}, {"recomputed_tokens", end.usage.recomputed_tokens},
      {"kv_bytes", end.usage.kv_bytes},       {"ttft_ms", Milliseconds(end.usage.ttft_ns)},
      {"e2e_ms", Milliseconds(end.e2e_ns)}};
}

}  // namespace

RecentRequests::Request* RecentRequests::Find(const RequestRecord& request) {
  const auto found = by_name_.find(request.id);
  return found == by_name_.end() ? nullptr : &ring_[found->second];
}

// A name may have gone over to a newer request.
void RecentRequests::Forget(const Request& request, std::size_t slot) {
  for (const std::string& name : {request.id, request.answer_id}) {
    const auto found = by_name_.find(name);
    if (found != by_name_.end() && found->second == slot) by_name_.erase(found);
  }
  for (const Sequence& sequence : request.told) by_sequence_.erase(sequence.id.value());
}

void RecentRequests::OnSubmitted(const RequestRecord& request,
                                 std::span<const RequestId> sequences) {
  Request entry{.id = request.id,
                .answer_id = request.answer_id,
                .route = request.route,
                .tenant = request.tenant,
                .sequences = sequences.size(),
                .told = {},
                .duration_ns = {}};
  entry.told.reserve(std::min(sequences.size(), kSequences));
  for (const RequestId id : sequences.first(std::min(sequences.size(), kSequences))) {
    entry.told.push_back({.id = id, .told = {}, .ending = {}});
  }
  const std::lock_guard lock(mutex_);
  const std::size_t slot = count_++ % kRequests;
  if (slot == ring_.size()) {
    ring_.emplace_back();
  } else {
    Forget(ring_[slot], slot);
  }
  for (const Sequence& sequence : entry.told) by_sequence_[sequence.id.value()] = slot;
  by_name_[entry.id] = slot;
  by_name_[entry.answer_id] = slot;
  ring_[slot] = std::move(entry);
}

void RecentRequests::OnAdmitted(const RequestRecord& request, std::size_t sequence,
                                const engine::AdmissionRecord& admission) {
  const std::lock_guard lock(mutex_);
  Request* const entry = Find(request);
  if (entry == nullptr || sequence >= entry->told.size()) return;
  Sequence& told = entry->told[sequence];
  ++told.admissions;
  if (told.told.size() == kAdmissions) told.told.erase(told.told.begin() + 1);
  told.told.push_back(admission);
}

void RecentRequests::OnSequenceEnd(const RequestRecord& request, const SequenceEnding& sequence) {
  const std::lock_guard lock(mutex_);
  Request* const entry = Find(request);
  if (entry == nullptr || sequence.index >= entry->told.size()) return;
  entry->told[sequence.index].ending = sequence;
}

void RecentRequests::OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) {
  if (!record.generation) return;
  const std::lock_guard lock(mutex_);
  if (Request* const entry = Find(record); entry != nullptr) {
    entry->duration_ns = duration_ns;
    entry->status = record.status;
  }
}

std::optional<Json> RecentRequests::Explain(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end()) return std::nullopt;
  const Request& request = ring_[found->second];
  Json sequences = Json::array();
  for (std::size_t i = 0; i < request.told.size(); ++i) {
    const Sequence& sequence = request.told[i];
    Json admissions = Json::array();
    for (const engine::AdmissionRecord& one : sequence.told)
      admissions.push_back(AdmissionJson(one));
    sequences.push_back({{"index", i},
                         {"sequence", sequence.id.value()},
                         {"state", sequence.ending         ? "ended"
                                   : sequence.told.empty() ? "waiting"
                                                           : "admitted"},
                         {"admissions_total", sequence.admissions},
                         {"admissions", std::move(admissions)},
                         {"end", sequence.ending ? EndingJson(*sequence.ending) : Json()}});
  }
  return Json{{"request", request.id},
              {"answer", request.answer_id},
              {"route", request.route},
              {"tenant", request.tenant.empty() ? Json() : Json(request.tenant)},
              {"status", request.status == 0 ? Json() : Json(request.status)},
              {"ms", request.duration_ns ? Json(Milliseconds(*request.duration_ns)) : Json()},
              {"sequences_total", request.sequences},
              {"sequences", std::move(sequences)}};
}

std::string RecentRequests::NameOf(RequestId sequence) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_sequence_.find(sequence.value());
  return found == by_sequence_.end() ? std::string() : ring_[found->second].id;
}

}  // namespace ashlar::server
