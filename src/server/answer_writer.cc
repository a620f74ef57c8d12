#include "server/answer_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace ashlar::server {
namespace {

class WholeAnswer final : public AnswerWriter {
 public:
  WholeAnswer(const text::Tokenizer& tokenizer, AnswerOptions options, Reply reply,
              std::shared_ptr<AnswerMemory> memory)
      : options_(std::move(options)), reply_(std::move(reply)), memory_(std::move(memory)) {
    const ApiKind kind = options_.identity.kind;
    const TokenNaming naming = NamingOf(kind, options_.with_token_ids);
    sequences_.reserve(options_.prompts * options_.best_of);
    while (sequences_.size() < options_.prompts * options_.best_of) {
      sequences_.push_back(
          {.escaped_text = {}, .logprobs = LogprobsText(kind, tokenizer, naming), .end = {}});
    }
  }
  ~WholeAnswer() override { Release(); }

  void AddPiece(std::size_t sequence, TextPiece piece) override {
    Sequence& to = sequences_[sequence];
    const std::size_t before = to.bytes();
    AppendEscaped(piece.text, to.escaped_text);
    if (options_.with_logprobs) {
      for (const TokenEntry& entry : piece.tokens) {
        to.logprobs.Append(entry);
      }
    }
    bytes_ += to.bytes() - before;
    memory_->bytes += to.bytes() - before;
  }

  void FinishSequence(std::size_t sequence, SequenceEnd end) override {
    sequences_[sequence].end = std::move(end);
  }

  void Complete(const UsageTotals& usage) override {
    net::HttpResponse response;
    response.body = AnswerHead(options_.identity);
    std::size_t index = 0;
    for (std::size_t prompt = 0; prompt < options_.prompts; ++prompt) {
      for (const std::size_t sequence : Chosen(prompt)) {
        response.body += index == 0 ? "" : ",";
        AppendSequence(sequences_[sequence], index++, response.body);
      }
    }
    response.body += AnswerTail(usage);
    Release();
    reply_.Send(std::move(response));
  }

  void Fail(const ApiError& error) override {
    Release();
    reply_.Send(ErrorResponse(error));
  }

  std::optional<ApiError> Overflow() const override {
    const AnswerLimits& limits = memory_->limits;
    if (bytes_ > limits.max_bytes) {
      return ApiError{
          .message = fmt::format("the answer has grown beyond {} bytes; ask for it with 'stream', "
                                 "or for less: 'n', 'max_tokens', 'logprobs'",
                                 limits.max_bytes),
          .code = "answer_too_large"};
    }
    if (memory_->bytes > limits.max_total_bytes) {
      return ApiError{.status = 503,
                      .message =
                          "the answers under way fill the memory set aside for them; try "
                          "again shortly, or ask for it with 'stream'",
                      .code = "service_unavailable"};
    }
    return std::nullopt;
  }

 private:
  struct Sequence {
    std::string escaped_text;
    LogprobsText logprobs;
    SequenceEnd end;

    std::size_t bytes() const { return escaped_text.size() + logprobs.bytes(); }
  };

  // What was put together is sent, or not needed.
  void Release() {
    sequences_.clear();
    memory_->bytes -= std::exchange(bytes_, 0);
  }

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

  void AppendSequence(Sequence& sequence, std::size_t index, std::string& out) const {
    const std::string text = std::move(sequence.escaped_text);
    const std::string logprobs = options_.with_logprobs ? sequence.logprobs.Take() : std::string();
    AppendChoice(options_.identity.kind,
                 {.index = index,
                  .escaped_text = text,
                  .logprobs = logprobs,
                  .finish_reason = sequence.end.finish_reason,
                  .stop_reason = sequence.end.stop_reason},
                 out);
  }

  const AnswerOptions options_;
  const Reply reply_;
  const std::shared_ptr<AnswerMemory> memory_;
  std::vector<Sequence> sequences_;
  std::size_t bytes_ = 0;  // of memory_
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
    std::string logprobs;
    if (options_.with_logprobs && !piece.tokens.empty()) {
      const ApiKind kind = options_.identity.kind;
      LogprobsText text(kind, tokenizer_, NamingOf(kind, options_.with_token_ids));
      for (const TokenEntry& entry : piece.tokens) {
        text.Append(entry);
      }
      logprobs = text.Take();
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
    reply_.EndWith(std::exchange(out_, {}));
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
                                              AnswerOptions options, Reply reply,
                                              std::shared_ptr<AnswerMemory> memory) {
  return std::make_unique<WholeAnswer>(tokenizer, std::move(options), std::move(reply),
                                       std::move(memory));
}

std::unique_ptr<AnswerWriter> MakeStreamedAnswer(const text::Tokenizer& tokenizer,
                                                 AnswerOptions options, Reply reply) {
  return std::make_unique<StreamedAnswer>(tokenizer, std::move(options), std::move(reply));
}

}  // namespace ashlar::server
