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
  sched::KvText
      text;  // prompt and completion; with ContextStream what is left of them. compute_from: the
             // first position nobody has seen the logits of, while any are to be seen
  std::optional<model::TokenHistory> history;  // only when a penalty is asked for
  std::vector<TokenLogprobs> prompt_logprobs;
  std::optional<FinishReason> finish;  // set when the last token is known
  std::string_view error;              // why, when that is kError
  Usage usage;
  std::int64_t submitted_ns = 0;
  std::int64_t admitted_ns = 0;  // first
  std::int64_t first_token_ns = 0;
  std::int64_t last_token_ns = 0;

  std::uint64_t generated = 0;     // tokens that its sink heard of
  std::uint32_t tested = 0;        // guesses in the step at hand
  std::uint32_t rejected = 0;      // of those, the first wrong one and all after it
  std::uint32_t guess_length = 0;  // how many to make next

  // Tokens of its text that are known for good.
  std::uint64_t confirmed() const { return text.tokens.size() - text.guesses; }
  bool reports_logits() const { return request.report_logits != LogitReport::kNone; }
};

}  // namespace ashlar::engine
