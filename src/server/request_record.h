// What is known of one HTTP request when it is over: a line in the log, counters.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "engine/service.h"
#include "server/admission.h"
#include "server/api_keys.h"

namespace ashlar::server {

// In the order of what needs attention.
enum class Ending : std::uint8_t {
  kStop,    // an end token or a stop string
  kLength,  // max_tokens
  kAbort,   // the client left, its deadline passed, or the server turned it away or stopped
  kError,
};
inline constexpr std::size_t kEndings = 4;
std::string_view NameOf(Ending ending);  // "stop", "length", "abort", "error"

// Of a request that generates; summed over its sequences.
struct GenerationRecord {
  std::uint32_t n = 1;                      // as asked for
  std::optional<std::uint64_t> max_tokens;  // as asked for
  std::uint64_t sequences = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompts; by sequence, so n choices count n times
  std::uint64_t completion_tokens = 0;
  std::uint64_t longest_completion = 0;  // of one sequence
  std::int64_t queue_ns = 0;             // of the sequence that waited longest
  std::int64_t ttft_ns = 0;              // of the first token of any
  std::optional<Ending> ending;          // of several sequences, what needs attention most
};

// One thread at a time writes it: who has the request in hand.
struct RequestRecord {
  std::string id;          // X-Request-Id
  std::string answer_id;   // "cmpl-...": of a request that generates
  std::string_view route;  // as routes are named: "/v1/models/{id}"; "other" when there is none
  std::string method;
  std::string tenant;                    // whose key it was; empty without keys
  std::shared_ptr<const Tenant> caller;  // the same with what may be asked; never null
  Admission::Ticket ticket;              // of requests that wait and are counted
  bool is_routine = false;               // asked again and again: logged at debug level
  std::int64_t started_ns = 0;
  int status = 0;  // 0: none was sent
  std::optional<GenerationRecord> generation = {};
  std::atomic<bool> client_left{false};  // before the answer was complete
};

// How one sequence of a request ended.
struct SequenceEnding {
  std::size_t index = 0;  // in the request
  Ending ending = Ending::kStop;
  engine::Usage usage;
  std::uint64_t completion_tokens = 0;  // of the answer: up to a stop string
  std::int64_t e2e_ns = 0;              // since the request arrived
};

// Called on any thread but the engine's.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // The engine has taken the request: its sequences, by index.
  virtual void OnSubmitted(const RequestRecord& request, std::span<const RequestId> sequences) {
    (void)request, (void)sequences;
  }
  virtual void OnAdmitted(const RequestRecord& request, std::size_t sequence,
                          const engine::AdmissionRecord& admission) {
    (void)request, (void)sequence, (void)admission;
  }
  virtual void OnSequenceEnd(const RequestRecord& request, const SequenceEnding& sequence) {
    (void)request, (void)sequence;
  }
  // The answer is complete or can no longer be. Once, last.
  virtual void OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) = 0;
};

// Tells several.
class RequestObservers final : public RequestObserver {
 public:
  explicit RequestObservers(std::vector<std::shared_ptr<RequestObserver>> observers)
      : observers_(std::move(observers)) {}
  void OnSubmitted(const RequestRecord& request, std::span<const RequestId> sequences) override;
  void OnAdmitted(const RequestRecord& request, std::size_t sequence,
                  const engine::AdmissionRecord& admission) override;
  void OnSequenceEnd(const RequestRecord& request, const SequenceEnding& sequence) override;
  void OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) override;

 private:
  const std::vector<std::shared_ptr<RequestObserver>> observers_;
};

}  // namespace ashlar::server
