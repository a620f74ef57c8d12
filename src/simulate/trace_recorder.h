// Records what a service is asked as a trace (trace/README.md says what is in one): an
// engine::Service before another one.
//
//   SubmitAll   the prompt's prefixes are named; the request takes its place in the trace
//   OnToken     what is generated is named
//   OnFinish    its line is complete. Lines are written in the order in which requests came, by a
//               thread of the recorder's own: those behind one that still runs wait for it.
//
// At most kMaxHeldNames names wait so; beyond that the request that holds the others up is left
// out, and counted. A trace never delays a request and never ends one: when writing fails that is
// said once, and the rest is not recorded.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/service.h"
#include "trace/prefix_names.h"
#include "trace/request.h"

namespace ashlar::simulate {

class TraceRecorder final : public engine::Service {
 public:
  static constexpr std::size_t kMaxHeldNames = std::size_t{16} << 20;  // 4 bytes each

  // Creates the file. Errors: kInvalidArgument when there is something in it already (a trace has
  // one key); kIo.
  static Result<std::unique_ptr<std::ostream>> CreateFile(const std::string& path);

  // All but `out` must outlive the recorder, and the recorder the service's last sink.
  TraceRecorder(engine::Service& service, std::unique_ptr<std::ostream> out,
                const trace::NamingKey& key, const Clock& clock,
                std::size_t max_held_names = kMaxHeldNames);
  // Writes what is complete.
  ~TraceRecorder() override;

  const engine::ServiceInfo& info() const override { return service_.info(); }
  engine::ServiceStats stats() const override { return service_.stats(); }
  Result<std::vector<RequestId>> SubmitAll(std::vector<engine::Submission> submissions) override;
  void Cancel(RequestId id) override { service_.Cancel(id); }

  std::uint64_t written() const;
  std::uint64_t left_out() const;

 private:
  class Sink;
  // A line to be. Of the sink until it is complete, then of the writer.
  struct Entry {
    trace::Request request;
    bool is_queued = false;  // in entries_
    bool is_complete = false;
  };

  std::shared_ptr<Entry> MakeEntry(const engine::GenerationRequest& request,
                                   trace::PrefixNamer& namer) const;
  std::string NameOf(const std::string& text) const;
  void Complete(Entry& entry, std::vector<std::uint32_t> names);
  void Write();

  engine::Service& service_;
  const std::unique_ptr<std::ostream> out_;  // the writer's
  const trace::NamingKey key_;
  const Clock& clock_;
  const std::size_t max_held_names_;
  const std::int64_t start_ns_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> entries_;  // in the order in which they came
  std::size_t held_names_ = 0;                  // of complete entries
  std::uint64_t written_ = 0;
  std::uint64_t left_out_ = 0;
  bool is_ending_ = false;
  bool has_failed_ = false;

  std::thread writer_;  // last: it uses everything above
};

}  // namespace ashlar::simulate
