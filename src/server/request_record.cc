#include "server/request_record.h"

namespace ashlar::server {

std::string_view NameOf(Ending ending) {
  switch (ending) {
    case Ending::kStop:
      return "stop";
    case Ending::kLength:
      return "length";
    case Ending::kAbort:
      return "abort";
    case Ending::kError:
      return "error";
  }
  return "error";
}

void RequestObservers::OnSubmitted(const RequestRecord& request,
                                   std::span<const RequestId> sequences) {
  for (const auto& one : observers_) one->OnSubmitted(request, sequences);
}

void RequestObservers::OnAdmitted(const RequestRecord& request, std::size_t sequence,
                                  const engine::AdmissionRecord& admission) {
  for (const auto& one : observers_) one->OnAdmitted(request, sequence, admission);
}

void RequestObservers::OnSequenceEnd(const RequestRecord& request, const SequenceEnding& sequence) {
  for (const auto& one : observers_) one->OnSequenceEnd(request, sequence);
}

void RequestObservers::OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) {
  for (const auto& one : observers_) one->OnRequestEnd(record, duration_ns);
}

}  // namespace ashlar::server
