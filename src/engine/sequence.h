// What the engine knows of one sequence. Its own: nobody else includes this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/service.h"
#include "model/sampler.h"
#include "sched/kv_memory.h"

namespace ashlar::engine {

struct Sequence {
  GenerationRequest request;
  std::shared_ptr<EventSink> sink;
  sched::KvText text;  // compute_from: the first position nobody has seen the logits of, while any
                       // are to be seen
  std::optional<model::TokenHistory> history;  // only when a penalty is asked for
  std::vector<TokenLogprobs> prompt_logprobs;
  std::optional<FinishReason> finish;  // set when the last token is known
  std::string_view error;              // why, when that is kError
  Usage usage;
  std::int64_t submitted_ns = 0;
  std::int64_t admitted_ns = 0;  // first
  std::int64_t first_token_ns = 0;
  std::int64_t last_token_ns = 0;

  std::uint64_t generated() const { return text.tokens.size() - request.prompt.size(); }
  bool reports_logits() const { return request.report_logits != LogitReport::kNone; }
};

}  // namespace ashlar::engine
