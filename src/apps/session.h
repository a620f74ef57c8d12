// A model file opened and made ready to generate: file, tokenizer, template, weights, engine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/flags.h"
#include "apps/loaded_model.h"
#include "apps/memory_use.h"
#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "gguf/model_file.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ashlar::apps {

class Session {
 public:
  // Shows progress on stderr while loading when that is a terminal, and a line on what was loaded.
  static Result<std::unique_ptr<Session>> Open(const EngineFlags& flags);

  const gguf::ModelFile& file() const { return loaded_->file(); }
  const model::Model& model() const { return loaded_->model(); }
  const text::Tokenizer& tokenizer() const { return loaded_->tokenizer(); }
  // nullptr when the model has none; an unusable one is a warning at Open.
  const text::ChatTemplate* chat_template() const {
    return chat_template_ ? &*chat_template_ : nullptr;
  }
  const Clock& clock() const { return clock_; }
  const PlannedMemory& memory() const { return memory_; }
  engine::Engine& engine() { return *engine_; }
  // Hands the engine over, to run on a thread of its own; it must not outlive the session.
  std::unique_ptr<engine::Engine> TakeEngine() { return std::move(engine_); }

 private:
  Session() = default;
  Status Load(const EngineSetup& setup);
  void LoadChatTemplate();

  SteadyClock clock_;
  std::optional<LoadedModel> loaded_;  // set by Load
  std::optional<text::ChatTemplate> chat_template_;
  std::unique_ptr<engine::Engine> engine_;
  PlannedMemory memory_;
};

// A conversation as the prompt's tokens. Errors: those of the template.
Result<std::vector<TokenId>> EncodeChat(const Session& session,
                                        const nlohmann::ordered_json& messages);

}  // namespace ashlar::apps
