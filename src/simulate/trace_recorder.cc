#include "simulate/trace_recorder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "trace/lines.h"

namespace ashlar::simulate {

// Names what is generated, and passes everything on.
class TraceRecorder::Sink final : public engine::EventSink {
 public:
  Sink(TraceRecorder& recorder, std::shared_ptr<Entry> entry, trace::PrefixNamer namer,
       std::shared_ptr<engine::EventSink> sink)
      : recorder_(recorder),
        entry_(std::move(entry)),
        namer_(std::move(namer)),
        sink_(std::move(sink)) {}

  void OnAdmitted(const engine::AdmissionRecord& admission) override {
    sink_->OnAdmitted(admission);
  }
  void OnPromptLogprobs(std::vector<engine::TokenLogprobs> logprobs) override {
    sink_->OnPromptLogprobs(std::move(logprobs));
  }
  void OnToken(TokenId token, const engine::TokenLogprobs* logprobs) override {
    namer_.Add(token);
    sink_->OnToken(token, logprobs);
  }
  void OnLogits(std::uint64_t position, std::span<const float> logits) override {
    sink_->OnLogits(position, logits);
  }
  void OnMemory(std::span<const engine::KvGroupUse> groups) override { sink_->OnMemory(groups); }
  void OnFinish(engine::FinishReason reason, const engine::Usage& usage,
                std::string_view error) override {
    recorder_.Complete(*entry_, namer_.names());
    sink_->OnFinish(reason, usage, error);
  }

 private:
  TraceRecorder& recorder_;
  const std::shared_ptr<Entry> entry_;
  trace::PrefixNamer namer_;
  const std::shared_ptr<engine::EventSink> sink_;
};

Result<std::unique_ptr<std::ostream>> TraceRecorder::CreateFile(const std::string& path) {
  std::error_code error;
  if (const auto bytes = std::filesystem::file_size(path, error); !error && bytes > 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--record-trace: '{}' has {} bytes already, and a trace cannot be continued; "
                     "name a new file",
                     path, bytes);
  }
  auto out = std::make_unique<std::ofstream>(path, std::ios::binary | std::ios::app);
  if (!*out) {
    return MakeError(ErrorCode::kIo, "--record-trace: cannot create '{}'", path);
  }
  return std::unique_ptr<std::ostream>(std::move(out));
}

TraceRecorder::TraceRecorder(engine::Service& service, std::unique_ptr<std::ostream> out,
                             const trace::NamingKey& key, const Clock& clock,
                             std::size_t max_held_names)
    : service_(service),
      out_(std::move(out)),
      key_(key),
      clock_(clock),
      max_held_names_(max_held_names),
      start_ns_(clock.NowNs()),
      writer_([this] { Write(); }) {}

TraceRecorder::~TraceRecorder() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_one();
  }
  writer_.join();
  if (left_out_ > 0) ASHLAR_LOG_WARNING("{} requests are not in the trace", left_out_);
}

std::uint64_t TraceRecorder::written() const {
  const std::lock_guard lock(mutex_);
  return written_;
}

std::uint64_t TraceRecorder::left_out() const {
  const std::lock_guard lock(mutex_);
  return left_out_;
}

// A hash of a salt or a tenant's name; nothing of nothing.
std::string TraceRecorder::NameOf(const std::string& text) const {
  return text.empty() ? "" : fmt::format("{:016x}", trace::SipHash(key_, text));
}

std::shared_ptr<TraceRecorder::Entry> TraceRecorder::MakeEntry(
    const engine::GenerationRequest& request, trace::PrefixNamer& namer) const {
  auto entry = std::make_shared<Entry>();
  namer.Add(request.prompt);
  entry->request.input_tokens = request.prompt.size();
  entry->request.max_tokens = request.max_tokens;
  entry->request.scope = NameOf(request.cache_salt);
  entry->request.tenant = NameOf(request.tenant);
  entry->request.priority = request.priority;
  return entry;
}

Result<std::vector<RequestId>> TraceRecorder::SubmitAll(
    std::vector<engine::Submission> submissions) {
  std::vector<std::shared_ptr<Entry>> entries;
  entries.reserve(submissions.size());
  for (engine::Submission& one : submissions) {
    trace::PrefixNamer namer(key_);
    entries.push_back(MakeEntry(one.request, namer));
    one.sink = std::make_shared<Sink>(*this, entries.back(), std::move(namer), std::move(one.sink));
  }
  // Held over the call, so that the trace's order is the service's. Nobody who calls a sink holds
  // what SubmitAll waits for.
  const std::lock_guard lock(mutex_);
  auto ids = service_.SubmitAll(std::move(submissions));
  if (!ids.ok() || has_failed_) return ids;
  const std::int64_t now_us = (clock_.NowNs() - start_ns_) / 1000;
  const double now_ms = static_cast<double>(now_us) / 1000;
  for (std::shared_ptr<Entry>& entry : entries) {
    entry->request.timestamp_ms = now_ms;
    entry->is_queued = true;
    entries_.push_back(std::move(entry));
  }
  return ids;
}

void TraceRecorder::Complete(Entry& entry, std::vector<std::uint32_t> names) {
  const std::lock_guard lock(mutex_);
  if (!entry.is_queued) return;
  entry.request.output_tokens = names.size() - entry.request.input_tokens;
  entry.request.max_tokens = std::max(entry.request.max_tokens, entry.request.output_tokens);
  entry.request.prefixes = std::move(names);
  entry.is_complete = true;
  held_names_ += entry.request.prefixes.size();
  while (held_names_ > max_held_names_ && !entries_.empty() && !entries_.front()->is_complete) {
    entries_.front()->is_queued = false;
    entries_.pop_front();
    ++left_out_;
  }
  changed_.notify_one();
}

void TraceRecorder::Write() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_line = [&] { return !entries_.empty() && entries_.front()->is_complete; };
    changed_.wait(lock, [&] { return is_ending_ || has_line(); });
    if (!has_line()) break;
    const std::shared_ptr<Entry> entry = std::move(entries_.front());
    entries_.pop_front();
    held_names_ -= entry->request.prefixes.size();
    if (has_failed_) continue;
    lock.unlock();
    *out_ << trace::FormatLine(entry->request) << '\n' << std::flush;
    const bool is_written = out_->good();
    lock.lock();
    if (is_written) {
      ++written_;
    } else {
      has_failed_ = true;
      ASHLAR_LOG_ERROR("--record-trace: writing failed after {} requests; no more are recorded",
                       written_);
    }
  }
  left_out_ += entries_.size();
}

}  // namespace ashlar::simulate
