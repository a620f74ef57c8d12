// An engine over a tiny random model, for tests of the engine and of what stands on it.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "gguf/model_file.h"
#include "model/testing/tiny_model.h"

namespace ashlar::engine {

// Small enough that a step takes well under a millisecond.
inline model::TinyModelOptions TinyEngineModel() {
  return {.layers = 2,
          .hidden = 32,
          .feed_forward = 48,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .rope_dims = 8,
          .context = 512};
}

class TinyEngine {
 public:
  // With a clock of its own unless one is given.
  explicit TinyEngine(const EngineOptions& options = DefaultOptions(), std::size_t threads = 1,
                      const Clock* clock = nullptr,
                      const model::TinyModelOptions& model = TinyEngineModel())
      : bytes_(model::MakeTinyModel(model).Build()),
        file_(std::make_unique<gguf::ModelFile>(*gguf::ModelFile::Parse(bytes_, "tiny"))),
        pool_(threads),
        model_(*model::Model::Load(*file_, pool_, nullptr)),
        engine_(*Engine::Create(*model_, kernels::KernelsFor(kernels::BestIsa()), pool_,
                                clock == nullptr ? clock_ : *clock, options)) {}

  static EngineOptions DefaultOptions() {
    return {.kv_memory_bytes = 4 << 20,
            .limits = {.max_step_tokens = 64, .prefill_chunk = 16, .max_running = 8}};
  }

  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }
  const model::Model& model() const { return *model_; }
  const Clock& clock() const { return clock_; }
  const gguf::ModelFile& file() const { return *file_; }
  std::unique_ptr<Engine> Take() { return std::move(engine_); }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<gguf::ModelFile> file_;
  ThreadPool pool_;
  SteadyClock clock_;
  std::unique_ptr<const model::Model> model_;
  std::unique_ptr<Engine> engine_;
};

// Keeps everything it hears.
class RecordingSink final : public EventSink {
 public:
  void OnPromptLogprobs(std::vector<TokenLogprobs> all) override {
    prompt_logprobs = std::move(all);
  }
  void OnToken(TokenId token, const TokenLogprobs* token_logprobs) override {
    tokens.push_back(token);
    if (token_logprobs != nullptr) logprobs.push_back(*token_logprobs);
  }
  void OnLogits(std::uint64_t position, std::span<const float> row) override {
    positions.push_back(position);
    logits.emplace_back(row.begin(), row.end());
  }
  void OnMemory(std::span<const KvGroupUse> use) override { groups.assign(use.begin(), use.end()); }
  void OnFinish(FinishReason why, const Usage& used, std::string_view message) override {
    ++finishes;
    reason = why;
    usage = used;
    error = message;
  }

  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<std::uint64_t> positions;
  std::vector<std::vector<float>> logits;
  std::vector<KvGroupUse> groups;
  int finishes = 0;
  FinishReason reason = FinishReason::kError;
  Usage usage;
  std::string error;
};

}  // namespace ashlar::engine
