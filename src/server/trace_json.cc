#include "server/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/json_text.h"

namespace ashlar::server {
namespace {

constexpr int kEngine = 1;  // process ids: groups of tracks
constexpr int kRequests = 2;

class TraceWriter {
 public:
  explicit TraceWriter(std::int64_t origin_ns) : origin_ns_(origin_ns) {}

  void Name(int process, std::string_view name) {
    Begin();
    Put(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":"{}"}}}})", process,
        name);
  }

  // `args`: members of an object, or empty.
  void Slice(std::string_view name, std::int64_t start_ns, std::int64_t duration_ns,
             std::string_view args) {
    Begin();
    Put(R"({{"ph":"X","name":"{}","pid":{},"tid":1,"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})", name,
        kEngine, Microseconds(start_ns - origin_ns_), Microseconds(duration_ns), args);
  }

  void Counter(std::string_view name, std::int64_t time_ns, std::string_view values) {
    Begin();
    Put(R"({{"ph":"C","name":"{}","pid":{},"tid":0,"ts":{:.3f},"args":{{{}}}}})", name, kEngine,
        Microseconds(time_ns - origin_ns_), values);
  }

  // A part of a sequence's life, on its own track.
  void Span(std::string_view name, RequestId id, std::int64_t start_ns, std::int64_t end_ns,
            std::string_view args) {
    for (const bool is_begin : {true, false}) {
      Begin();
      Put(R"({{"ph":"{}","cat":"sequence","id":{},"name":)", is_begin ? 'b' : 'e', id.value());
      AppendJsonString(name, out_);
      Put(R"(,"pid":{},"tid":0,"ts":{:.3f},"args":{{{}}}}})", kRequests,
          Microseconds((is_begin ? start_ns : end_ns) - origin_ns_), is_begin ? args : "");
    }
  }

  std::string Take() { return R"({"displayTimeUnit":"ms","traceEvents":[)" + out_ + "]}"; }

 private:
  static double Microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000; }
  void Begin() {
    if (!out_.empty()) out_ += ",\n";
  }
  template <typename... Args>
  void Put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  const std::int64_t origin_ns_;
  std::string out_;
};

void AddStep(const engine::StepRecord& step, TraceWriter& out) {
  out.Slice(fmt::format("step {}", step.number), step.start_ns, step.total_ns,
            fmt::format(R"("prefill_tokens":{},"decode_tokens":{},"admitted":{},"preempted":{},)"
                        R"("predicted_ms":{:.3f})",
                        step.prefill_tokens, step.decode_tokens, step.admitted, step.preempted,
                        step.predicted_ns * 1e-6));
  // Within the step, whatever the clock says of the parts.
  std::int64_t at = step.start_ns;
  const std::int64_t end = step.start_ns + step.total_ns;
  const auto part = [&](std::string_view name, std::int64_t duration_ns) {
    duration_ns = std::clamp<std::int64_t>(duration_ns, 0, end - at);
    out.Slice(name, at, duration_ns, "");
    at += duration_ns;
  };
  part("plan", step.plan_ns);
  part("forward", step.forward_ns);
  part("sample", step.sample_ns);
  out.Counter("sequences", end,
              fmt::format(R"("running":{},"waiting":{})", step.running, step.waiting));
  out.Counter("tokens", step.start_ns,
              fmt::format(R"("prefill":{},"decode":{})", step.prefill_tokens, step.decode_tokens));
  out.Counter("kv bytes", end, fmt::format(R"("live":{})", step.kv_bytes));
}

void AddSequence(const engine::SequenceRecord& sequence, const std::string& name,
                 TraceWriter& out) {
  const std::string title = name.empty() ? fmt::format("sequence {}", sequence.id.value()) : name;
  out.Span(title, sequence.id, sequence.submitted_ns, sequence.ended_ns,
           fmt::format(R"("prompt_tokens":{},"cached_tokens":{},"completion_tokens":{},)"
                       R"("preemptions":{},"end":"{}")",
                       sequence.usage.prompt_tokens, sequence.usage.cached_tokens,
                       sequence.usage.completion_tokens, sequence.usage.preemptions,
                       NameOf(sequence.reason)));
  const std::int64_t admitted_ns =
      sequence.admitted_ns != 0 ? sequence.admitted_ns : sequence.ended_ns;
  out.Span("queue", sequence.id, sequence.submitted_ns, admitted_ns, "");
  if (sequence.admitted_ns == 0) return;
  const std::int64_t first_ns =
      sequence.first_token_ns != 0 ? sequence.first_token_ns : sequence.ended_ns;
  out.Span("prefill", sequence.id, admitted_ns, first_ns, "");
  if (sequence.first_token_ns == 0) return;
  out.Span("decode", sequence.id, first_ns, sequence.ended_ns, "");
}

}  // namespace

std::string ChromeTrace(const engine::EngineTrace& trace,
                        const std::function<std::string(RequestId)>& name) {
  std::int64_t origin_ns = trace.steps.empty() ? trace.now_ns : trace.steps.front().start_ns;
  for (const engine::SequenceRecord& sequence : trace.sequences) {
    origin_ns = std::min(origin_ns, sequence.submitted_ns);
  }
  TraceWriter out(origin_ns);
  out.Name(kEngine, "engine");
  out.Name(kRequests, "requests");
  for (const engine::StepRecord& step : trace.steps) AddStep(step, out);
  for (const engine::SequenceRecord& sequence : trace.sequences) {
    AddSequence(sequence, name(sequence.id), out);
  }
  return out.Take();
}

}  // namespace ashlar::server
