// What GET /kv/explain/{request} tells: of the last requests, what the cache served and why not
// more. Also the names that engine ids have outside.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "server/json.h"
#include "server/request_record.h"

namespace ashlar::server {

class RecentRequests final : public RequestObserver {
 public:
  static constexpr std::size_t kRequests = 1024;  // remembered
  static constexpr std::size_t kSequences = 32;   // of a request
  static constexpr std::size_t kAdmissions = 8;   // of a sequence: the first and the last ones

  void OnSubmitted(const RequestRecord& request, std::span<const RequestId> sequences) override;
  void OnAdmitted(const RequestRecord& request, std::size_t sequence,
                  const engine::AdmissionRecord& admission) override;
  void OnSequenceEnd(const RequestRecord& request, const SequenceEnding& sequence) override;
  void OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) override;

  // `name`: a request's id (X-Request-Id) or its answer's ("cmpl-..."). nullopt: not known.
  std::optional<Json> Explain(std::string_view name) const;
  // The id of the request that the sequence belongs to; empty when it is not known.
  std::string NameOf(RequestId sequence) const;

 private:
  struct Sequence {
    RequestId id;
    std::uint64_t admissions = 0;  // all of them
    std::vector<engine::AdmissionRecord> told;
    std::optional<SequenceEnding> ending;
  };
  struct Request {
    std::string id;
    std::string answer_id;
    std::string_view route;
    std::string tenant;
    std::uint64_t sequences = 0;  // all of them
    std::vector<Sequence> told;
    std::optional<std::int64_t> duration_ns;  // once it is over
    int status = 0;
  };

  Request* Find(const RequestRecord& request);
  void Forget(const Request& request, std::size_t slot);

  mutable std::mutex mutex_;  // protects all below
  std::vector<Request> ring_;
  std::size_t count_ = 0;
  std::unordered_map<std::string, std::size_t> by_name_;  // both names, to the slot
  std::unordered_map<std::uint64_t, std::size_t> by_sequence_;
};

}  // namespace ashlar::server
