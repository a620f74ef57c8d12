#include "server/answer_writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace ashlar::server {
namespace {

class WholeAnswer final : public AnswerWriter {
 public:
  WholeAnswer(const text::Tokenizer& tokenizer, AnswerOptions options, Reply reply)
      : tokenizer_(tokenizer),
        options_(std::move(options)),
        reply_(std::move(reply)),
        sequences_(options_.prompts * options_.best_of) {}

  void AddPiece(std::size_t sequence, TextPiece piece) override {
    Sequence& to = sequences_[sequence];
    to.text += piece.text;
    std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(to.tokens));
  }

  void FinishSequence(std::size_t sequence, SequenceEnd end) override {
    sequences_[sequence].end = std::move(end);
  }

  void Complete(const UsageTotals& usage) override {
    Json choices = Json::array();
    for (std::size_t prompt = 0; prompt < options_.prompts; ++prompt) {
      for (const std::size_t sequence : Chosen(prompt)) {
        choices.push_back(ChoiceOf(sequences_[sequence], choices.size()));
      }
    }
    net::HttpResponse response;
    response.body = DumpJson(AnswerJson(options_.identity, std::move(choices), usage));
    reply_.Send(std::move(response));
  }

  void Fail(const ApiError& error) override { reply_.Send(ErrorResponse(error)); }

 private:
  struct Sequence {
    std::string text;
    std::vector<TokenEntry> tokens;
    SequenceEnd end;
  };

  // The n sequences of a prompt with the highest mean logprob, the best first (ties: the earlier);
  // all of them, in order, when there is nothing to choose.
  std::vector<std::size_t> Chosen(std::size_t prompt) const {
    std::vector<std::size_t> order(options_.best_of);
    std::iota(order.begin(), order.end(), prompt * options_.best_of);
    if (options_.best_of > options_.n) {
      std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
        const double left = sequences_[a].end.mean_logprob;
        const double right = sequences_[b].end.mean_logprob;
        return left != right ? left > right : a < b;
      });
      order.resize(options_.n);
    }
    return order;
  }

  Json ChoiceOf(Sequence& sequence, std::size_t index) const {
    ChoiceFields fields{.index = index,
                        .text = std::move(sequence.text),
                        .logprobs = {},
                        .finish_reason = sequence.end.finish_reason,
                        .stop_reason = std::move(sequence.end.stop_reason)};
    if (options_.with_logprobs) {
      fields.logprobs = LogprobsJson(options_.identity.kind, tokenizer_, sequence.tokens,
                                     options_.with_token_ids);
    }
    return ChoiceJson(options_.identity.kind, std::move(fields));
  }

  const text::Tokenizer& tokenizer_;
  const AnswerOptions options_;
  const Reply reply_;
  std::vector<Sequence> sequences_;
};

class StreamedAnswer final : public AnswerWriter {
 public:
  StreamedAnswer(const text::Tokenizer& tokenizer, AnswerOptions options, Reply reply)
      : tokenizer_(tokenizer),
        options_(std::move(options)),
        reply_(std::move(reply)),
        chunks_(options_.identity, options_.include_usage),
        has_role_(options_.prompts * options_.n, options_.identity.kind != ApiKind::kChat) {
    ASHLAR_CHECK(options_.best_of == options_.n);
  }

  void Begin() override {
    reply_.StartEvents();
    has_begun_ = true;
  }

  void AddPiece(std::size_t sequence, TextPiece piece) override {
    EnsureRole(sequence);
    Json logprobs;
    if (options_.with_logprobs && !piece.tokens.empty()) {
      logprobs =
          LogprobsJson(options_.identity.kind, tokenizer_, piece.tokens, options_.with_token_ids);
    }
    chunks_.AppendText(sequence, piece.text, logprobs, out_);
  }

  void FinishSequence(std::size_t sequence, SequenceEnd end) override {
    EnsureRole(sequence);
    chunks_.AppendFinish(sequence, end.finish_reason, end.stop_reason, out_);
  }

  void Complete(const UsageTotals& usage) override {
    if (options_.include_usage) {
      chunks_.AppendUsage(usage, out_);
    }
    End();
  }

  void Fail(const ApiError& error) override {
    if (!has_begun_) {
      reply_.Send(ErrorResponse(error));
      return;
    }
    ChunkWriter::AppendError(ErrorBody(error), out_);
    End();
  }

  bool Flush() override { return out_.empty() || reply_.Write(std::exchange(out_, {})); }

 private:
  void EnsureRole(std::size_t sequence) {
    if (!has_role_[sequence]) {
      has_role_[sequence] = true;
      chunks_.AppendRole(sequence, out_);
    }
  }

  void End() {
    ChunkWriter::AppendDone(out_);
    reply_.Write(std::exchange(out_, {}));
    reply_.End();
  }

  const text::Tokenizer& tokenizer_;
  const AnswerOptions options_;
  const Reply reply_;
  const ChunkWriter chunks_;
  bool has_begun_ = false;
  std::vector<bool> has_role_;
  std::string out_;  // events since the last flush
};

}  // namespace

std::unique_ptr<AnswerWriter> MakeWholeAnswer(const text::Tokenizer& tokenizer,
                                              AnswerOptions options, Reply reply) {
  return std::make_unique<WholeAnswer>(tokenizer, std::move(options), std::move(reply));
}

std::unique_ptr<AnswerWriter> MakeStreamedAnswer(const text::Tokenizer& tokenizer,
                                                 AnswerOptions options, Reply reply) {
  return std::make_unique<StreamedAnswer>(tokenizer, std::move(options), std::move(reply));
}

}  // namespace ashlar::server
