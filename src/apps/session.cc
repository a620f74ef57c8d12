#include "apps/session.h"

#include "base/byte_size.h"
#include "base/log.h"
#include "kernels/kernel_set.h"

namespace ashlar::apps {
Result<std::unique_ptr<Session>> Session::Open(const EngineFlags& flags) {
  ASHLAR_ASSIGN(const EngineSetup setup, ResolveEngineFlags(flags));
  std::unique_ptr<Session> session(new Session());
  ASHLAR_TRY(session->Load(setup));
  return session;
}

Status Session::Load(const EngineSetup& setup) {
  const std::int64_t start_ns = clock_.NowNs();
  ASHLAR_ASSIGN(loaded_, LoadedModel::Open(setup.model_path, setup.threads, setup.weights,
                                           setup.engine.max_context));
  LoadChatTemplate();
  if (setup.engine.max_context > model().config().context) {
    ASHLAR_LOG_WARNING("--max-context {} is more than the {} tokens the model was trained for",
                       setup.engine.max_context, model().config().context);
  }
  ASHLAR_ASSIGN(engine_, engine::Engine::Create(model(), kernels::KernelsFor(setup.isa),
                                                loaded_->pool(), clock_, setup.engine));
  const engine::ServiceInfo& info = engine_->info();
  const model::Weights& weights = model().weights();
  memory_ = {.weights = setup.weights,
             .weights_bytes = weights.bytes() + weights.mapped_bytes(),
             .kv_bytes = info.kv_bytes_reserved,
             .workspace_bytes = engine_->workspace_bytes()};
  ASHLAR_LOG_INFO(
      "{}: {} weights ({}), {} KV cache (one text of up to {} tokens in {}, blocks of {}), {} "
      "workspace, {} "
      "threads, isa {}, activations {}, "
      "{:.2f} s",
      setup.model_path, FormatByteSize(memory_.weights_bytes), model::NameOf(setup.weights),
      FormatByteSize(info.kv_bytes_reserved),
      engine_->cache().MaxTokens(std::uint64_t{1} << 40, setup.engine.limits.prefill_chunk),
      info.kv_codec, info.block_tokens, FormatByteSize(memory_.workspace_bytes), setup.threads,
      kernels::NameOf(setup.isa), model::NameOf(setup.engine.activations),
      static_cast<double>(clock_.NowNs() - start_ns) * 1e-9);
  if (setup.engine.max_context == 0 && info.max_context < model().config().context) {
    ASHLAR_LOG_WARNING(
        "--kv-memory holds {} tokens of one request, less than the {} of the model's context",
        info.max_context, model().config().context);
  }
  return {};
}

void Session::LoadChatTemplate() {
  const auto source = file().StringOr("tokenizer.chat_template", "");
  if (!source.ok() || source->empty()) return;
  auto parsed = text::ChatTemplate::Parse(*source);
  if (parsed.ok()) {
    chat_template_.emplace(*std::move(parsed));
  } else {
    ASHLAR_LOG_WARNING("the model's chat template cannot be used: {}", parsed.error().message);
  }
}

Result<std::vector<TokenId>> EncodeChat(const Session& session,
                                        const nlohmann::ordered_json& messages) {
  const text::ChatTemplate* const chat_template = session.chat_template();
  if (chat_template == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the model has no usable chat template; give the prompt as it is with --raw");
  }
  const text::Tokenizer& tokenizer = session.tokenizer();
  nlohmann::ordered_json context = {{"messages", messages}, {"add_generation_prompt", true}};
  if (tokenizer.bos_token())
    context["bos_token"] = tokenizer.TokenBytes(*tokenizer.bos_token(), true);
  if (tokenizer.eos_token())
    context["eos_token"] = tokenizer.TokenBytes(*tokenizer.eos_token(), true);
  ASHLAR_ASSIGN(const std::string prompt, chat_template->Render(context));
  // Templates write the beginning-of-text token themselves when the model wants one.
  return tokenizer.Encode(prompt, {.add_special = false, .parse_special = true});
}

}  // namespace ashlar::apps
