#include "load/driver.h"

#include <string>
#include <utility>
#include <vector>

namespace ashlar::load {

struct Driver::Conversation {
  std::size_t index = 0;           // in the workload
  std::vector<Turn> turns;         // made when the first is sent
  std::size_t next = 0;            // turn to send, or being answered
  std::vector<std::string> texts;  // said so far: user, assistant, user, ...
  std::int64_t intended_ns = 0;    // of that turn
  std::int64_t sent_ns = 0;
};

class Driver::Answer final : public ReplySink {
 public:
  Answer(Driver& driver, std::unique_ptr<Conversation> conversation)
      : driver_(driver),
        conversation_(std::move(conversation)),
        meter_(conversation_->turns[conversation_->next].max_tokens, driver.results_) {}

  void OnHead(int status) override { meter_.OnHead(status); }
  std::optional<Failure> OnBody(std::string_view bytes) override {
    return meter_.OnBody(bytes, driver_.NowNs());
  }
  void OnEnd(std::optional<Failure> failure) override {
    if (!failure) failure = meter_.OnEnd(driver_.NowNs());
    driver_.OnAnswer(std::move(conversation_), meter_, failure);
  }

 private:
  Driver& driver_;
  std::unique_ptr<Conversation> conversation_;
  AnswerMeter meter_;
};

Driver::Driver(const Workload& workload, DriverOptions options, Transport& transport,
               const Clock& clock, Results& results)
    : workload_(workload),
      options_(std::move(options)),
      transport_(transport),
      clock_(clock),
      results_(results),
      start_ns_(clock.NowNs()),
      pacer_(options_.pacer) {}

Driver::~Driver() = default;

std::optional<std::int64_t> Driver::Poke() {
  while (const auto start = pacer_.Begin(NowNs())) {
    ready_.push_back(std::make_unique<Conversation>());
    ready_.back()->index = start->conversation;
    ready_.back()->intended_ns = start->intended_ns;
  }
  while (!ready_.empty() && running_ < options_.max_requests) {
    auto conversation = std::move(ready_.front());
    ready_.pop_front();
    SendTurn(std::move(conversation));
  }
  results_.OnRunning(running_);
  return pacer_.NextNs();
}

void Driver::Stop() {
  is_stopped_ = true;
  pacer_.Stop();
  for (const auto& conversation : std::exchange(ready_, {})) {
    if (!conversation->turns.empty()) {
      results_.OnSkipped(conversation->turns.size() - conversation->next);
    }
    pacer_.End();
  }
}

void Driver::SendTurn(std::unique_ptr<Conversation> conversation) {
  if (conversation->turns.empty()) conversation->turns = workload_.Turns(conversation->index);
  const Turn& turn = conversation->turns[conversation->next];
  conversation->texts.push_back(turn.text);
  HttpCall call = {.path = std::string(PathOf(options_.body.endpoint)),
                   .body = MakeBody(options_.body, conversation->texts, turn.max_tokens)};
  conversation->sent_ns = NowNs();
  // In a closed loop nobody waits but for our own places.
  if (options_.pacer.arrivals_ns.empty()) conversation->intended_ns = conversation->sent_ns;
  ++running_;
  transport_.Send(std::move(call), std::make_unique<Answer>(*this, std::move(conversation)));
}

void Driver::OnAnswer(std::unique_ptr<Conversation> conversation, const AnswerMeter& meter,
                      const std::optional<Failure>& failure) {
  --running_;
  const std::int64_t now_ns = NowNs();
  const auto& usage = meter.usage();
  const RequestRecord record = {.intended_ns = conversation->intended_ns,
                                .sent_ns = conversation->sent_ns,
                                .first_ns = meter.first_ns().value_or(now_ns),
                                .last_ns = meter.first_ns() ? meter.last_ns() : now_ns,
                                .end_ns = now_ns,
                                .prompt_tokens = usage ? usage->prompt_tokens : 0,
                                .completion_tokens = meter.completion_tokens(),
                                .is_ok = !failure};
  if (failure) {
    results_.OnFailure(record, *failure);
  } else {
    results_.OnSuccess(record, usage);
  }
  ++conversation->next;
  const std::size_t left = conversation->turns.size() - conversation->next;
  if (failure || left == 0 || is_stopped_) {
    results_.OnSkipped(left);
    pacer_.End();
    return;
  }
  conversation->texts.push_back(meter.text());
  conversation->intended_ns = now_ns;
  ready_.push_back(std::move(conversation));
}

}  // namespace ashlar::load
