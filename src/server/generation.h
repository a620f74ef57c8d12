// One request's life between the engine and its answer: submits the sequences, takes the engine's
// events to a worker, drives each choice's text, and sees to it that nothing runs on for a client
// that has left.
//
//   Start (a worker)        submits every sequence; an error calls off those before it and is
//                           the answer
//   events (engine thread)  are put in a queue; the first one schedules a round
//   round (a worker)        detokenises, matches stop strings, formats, writes; one at a time
//   Cancel (any thread)     the client has left: every sequence is cancelled at once, later
//                           events are dropped
//   over                    the answer is complete, it failed, or the client left
//   accounted for           every sequence has finished, in the engine too: the reply is let go
//
// The queue's bound is the sequences' max_tokens: the engine cannot produce more.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/beam_search.h"
#include "engine/service.h"
#include "server/answer_writer.h"
#include "server/choice_stream.h"
#include "server/reply.h"
#include "server/request.h"
#include "server/worker_pool.h"
#include "text/tokenizer.h"

namespace ashlar::server {

struct EncodedPrompt {
  std::vector<TokenId> tokens;
  std::uint64_t max_tokens = 0;
  std::string echo_text;  // what a choice's text begins with; empty without echo
};

struct GenerationPlan {
  AnswerIdentity identity;
  GenerationOptions options;
  std::string tenant;               // whose share of the computed tokens it takes
  std::uint32_t tenant_weight = 1;  // and how large that is
  std::int32_t priority = 0;
  std::int64_t deadline_ns = 0;  // of the engine's clock; 0: none
  std::optional<engine::ContextStream> stream;
  std::uint64_t seed = 0;  // sequence i of a prompt samples with seed + i
  bool echo = false;
  std::vector<EncodedPrompt> prompts;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // The references must outlive every call, and `workers` every event.
  struct Environment {
    engine::Service* service;
    const text::Tokenizer* tokenizer;
    std::shared_ptr<WorkerPool> workers;
    std::shared_ptr<AnswerMemory> answer_memory;
  };

  Generation(Environment environment, GenerationPlan plan, Reply reply);

  void Start();
  void Cancel();

 private:
  class Sink;

  struct TokenEvent {
    TokenId token;
    std::unique_ptr<engine::TokenLogprobs> logprobs;  // null when not asked for
  };
  struct PromptLogprobsEvent {
    std::vector<engine::TokenLogprobs> logprobs;
  };
  struct AdmittedEvent {
    engine::AdmissionRecord admission;
  };
  struct FinishEvent {
    engine::FinishReason reason;
    engine::Usage usage;
    std::string error;
  };
  struct Event {
    std::size_t sequence;
    std::variant<TokenEvent, PromptLogprobsEvent, AdmittedEvent, FinishEvent> what;
  };

  struct Sequence {
    ChoiceStream stream;
    std::size_t offset_base = 0;  // code points of the echoed prompt
    bool is_echo_due = false;
    bool is_finished = false;
  };

  engine::GenerationRequest RequestFor(std::size_t sequence) const;
  const EncodedPrompt& PromptOf(std::size_t sequence) const {
    return plan_.prompts[sequence / plan_.options.best_of];
  }

  void Enqueue(Event event);  // on the engine's thread
  void Round();
  void Handle(Event& event);
  void Write(Event& event);
  void HandleToken(std::size_t index, const TokenEvent& event);
  void HandleFinish(std::size_t index, const FinishEvent& event);
  // Whether or not anybody still waits for the answer.
  void Record(std::size_t index, const FinishEvent& event);
  void Emit(std::size_t index, TextPiece piece);
  void EmitEcho(std::size_t index, std::vector<engine::TokenLogprobs> logprobs);
  void FailAnswer(const ApiError& error);
  // Whether the answer grew too large, and so has failed.
  bool FailedByOverflow();
  ApiError RefusalOf(const Error& error) const;
  Status Submit();
  Status StartBeams();
  void TellSubmitted(std::span<const RequestId> ids);
  void TakeBeams(std::size_t prompt, engine::BeamResult result);
  void CancelSequences();

  const Environment environment_;
  GenerationPlan plan_;

  std::atomic<bool> is_over_{false};

  std::mutex mutex_;                  // protects the four below
  std::vector<Event> events_;         // in order, not yet handled
  bool is_round_due_ = true;          // a round is scheduled or running; true until Start is done
  std::vector<RequestId> submitted_;  // by sequence; none with beam search
  // By prompt. Weak: a search holds this, and is held by its sequences in the engine. When the
  // workers are gone that is all that lets go of it.
  std::vector<std::weak_ptr<engine::BeamSearch>> beams_;

  // Of the one round at a time.
  std::optional<Reply> reply_;  // both until every sequence is accounted for
  std::unique_ptr<AnswerWriter> writer_;
  std::vector<Sequence> sequences_;
  std::size_t unfinished_ = 0;  // of the answer
  std::size_t unaccounted_ = 0;
  UsageTotals usage_;
};

}  // namespace ashlar::server
