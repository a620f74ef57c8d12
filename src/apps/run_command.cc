// `ashlar run`: one prompt, or a chat in the terminal, answered with streaming text or one JSON
// object.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/session.h"
#include "base/byte_size.h"
#include "base/log.h"
#include "base/mapped_file.h"

namespace ashlar::apps {
namespace {

using Json = nlohmann::ordered_json;

struct RunFlags {
  EngineFlags engine;
  std::string prompt;
  std::string prompt_ids;  // file with a JSON array of token ids
  std::string system;
  bool is_chat = false;
  bool is_raw = false;
  bool as_json = false;
  bool ignores_eos = false;
  std::string max_tokens = "256";
  std::optional<std::uint32_t> logprobs;
  std::string logits_out;
  model::SamplingParams sampling = {.temperature = 0.0};
};

// Collects a generation; writes logits to a file as they come.
class Collector final : public engine::EventSink {
 public:
  explicit Collector(std::FILE* logits_file) : logits_file_(logits_file) {}

  void OnToken(TokenId token, const engine::TokenLogprobs* token_logprobs) override {
    tokens.push_back(token);
    if (token_logprobs != nullptr) logprobs.push_back(*token_logprobs);
  }
  void OnLogits(std::uint64_t, std::span<const float> logits) override {
    if (std::fwrite(logits.data(), sizeof(float), logits.size(), logits_file_) != logits.size()) {
      write_failed = true;
    }
  }
  void OnMemory(std::span<const engine::KvGroupUse> use) override {
    groups.assign(use.begin(), use.end());
  }
  void OnFinish(engine::FinishReason why, const engine::Usage& used,
                std::string_view message) override {
    reason = why;
    usage = used;
    error = message;
  }

  std::vector<TokenId> tokens;
  std::vector<engine::TokenLogprobs> logprobs;
  std::optional<engine::FinishReason> reason;
  engine::Usage usage;
  std::vector<engine::KvGroupUse> groups;  // of the text's memory
  std::string error;
  bool write_failed = false;

 private:
  std::FILE* logits_file_;
};

double PerSecond(std::uint64_t count, std::int64_t ns) {
  return ns > 0 ? static_cast<double>(count) * 1e9 / static_cast<double>(ns) : 0.0;
}

class RunCommand {
 public:
  RunCommand(const RunFlags& flags, Session& session) : flags_(flags), session_(session) {}

  Status Run() {
    ASHLAR_ASSIGN(max_tokens_, ParseMaxTokens());
    ASHLAR_TRY(flags_.is_chat ? Chat() : RunOne());
    ASHLAR_LOG_INFO("{}", DescribeMemory(session_.memory()));
    return {};
  }

 private:
  Status RunOne() {
    ASHLAR_ASSIGN(const std::vector<TokenId> prompt, PromptTokens());
    ASHLAR_ASSIGN(const auto result, Generate(prompt, !flags_.as_json));
    if (flags_.as_json) PrintJson(*result);
    PrintTimings(*result);
    return {};
  }
  Result<std::uint64_t> ParseMaxTokens() const;
  Result<std::vector<TokenId>> PromptTokens() const;
  Result<std::unique_ptr<Collector>> Generate(const std::vector<TokenId>& prompt, bool prints);
  Status Chat();
  Json GroupsJson(const Collector& result) const;
  void PrintJson(const Collector& result) const;
  void PrintTimings(const Collector& result) const;

  const RunFlags& flags_;
  Session& session_;
  std::uint64_t max_tokens_ = 0;
  std::uint64_t next_id_ = 1;
};

Result<std::vector<TokenId>> ReadTokenIds(const std::string& path) {
  ASHLAR_ASSIGN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) {
    return MakeError(ErrorCode::kInvalidArgument, "'{}' must hold a JSON array of token ids", path);
  }
  std::vector<TokenId> ids;
  for (const Json& id : json) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() > std::numeric_limits<TokenId>::max()) {
      return MakeError(ErrorCode::kInvalidArgument, "'{}' holds {}, which is not a token id", path,
                       id.dump());
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

Result<std::uint64_t> RunCommand::ParseMaxTokens() const {
  return ParseTokenCount(flags_.max_tokens);
}

Result<std::vector<TokenId>> RunCommand::PromptTokens() const {
  if (!flags_.prompt_ids.empty()) return ReadTokenIds(flags_.prompt_ids);
  if (flags_.is_raw) {
    return session_.tokenizer().Encode(flags_.prompt, {.add_special = true, .parse_special = true});
  }
  Json messages = Json::array();
  if (!flags_.system.empty()) messages.push_back({{"role", "system"}, {"content", flags_.system}});
  messages.push_back({{"role", "user"}, {"content", flags_.prompt}});
  return EncodeChat(session_, messages);
}

Result<std::unique_ptr<Collector>> RunCommand::Generate(const std::vector<TokenId>& prompt,
                                                        bool prints) {
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, CloseFile> logits_file;
  if (!flags_.logits_out.empty()) {
    logits_file.reset(std::fopen(flags_.logits_out.c_str(), "wb"));
    if (!logits_file) {
      return MakeError(ErrorCode::kIo, "cannot write logits to '{}': {}", flags_.logits_out,
                       std::strerror(errno));
    }
  }
  engine::GenerationRequest request = {.prompt = prompt,
                                       .sampling = flags_.sampling,
                                       .max_tokens = max_tokens_,
                                       .top_logprobs = flags_.logprobs,
                                       .report_logits = logits_file != nullptr
                                                            ? engine::LogitReport::kAll
                                                            : engine::LogitReport::kNone};
  const std::uint64_t context = session_.engine().info().max_context;
  if (flags_.is_chat && prompt.size() < context) {
    request.max_tokens = std::min(max_tokens_, context - prompt.size());
  }
  const auto ends = session_.tokenizer().end_tokens();
  if (!flags_.ignores_eos) request.stop_tokens.assign(ends.begin(), ends.end());
  ASHLAR_TRY(session_.engine().Check(request));

  auto collector = std::make_shared<Collector>(logits_file.get());
  engine::Engine& engine = session_.engine();
  engine.Submit(RequestId(next_id_++), std::move(request), collector, session_.clock().NowNs());
  text::Detokenizer detokenizer(session_.tokenizer(), {.continues_text = true});
  std::size_t printed = 0;
  const auto print = [&](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  while (engine.Step()) {
    for (; prints && printed < collector->tokens.size(); ++printed) {
      print(detokenizer.Push(collector->tokens[printed]));
    }
  }
  if (prints) print(detokenizer.Finish() + "\n");
  if (collector->reason == engine::FinishReason::kError) {
    return MakeError(ErrorCode::kCorrupt, "{}", collector->error);
  }
  if (logits_file && (collector->write_failed || std::fflush(logits_file.get()) != 0)) {
    return MakeError(ErrorCode::kIo, "writing logits to '{}' failed", flags_.logits_out);
  }
  return std::make_unique<Collector>(*collector);
}

Status RunCommand::Chat() {
  Json messages = Json::array();
  if (!flags_.system.empty()) messages.push_back({{"role", "system"}, {"content", flags_.system}});
  const bool is_terminal = isatty(STDIN_FILENO) == 1;
  std::string line;
  for (;;) {
    if (is_terminal) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line)) return {};
    if (line.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    ASHLAR_ASSIGN(const std::vector<TokenId> prompt, EncodeChat(session_, messages));
    ASHLAR_ASSIGN(const auto result, Generate(prompt, /*prints=*/true));
    messages.push_back(
        {{"role", "assistant"}, {"content", session_.tokenizer().Decode(result->tokens, false)}});
    PrintTimings(*result);
  }
}

// By lane group, as `ashlar plan` has them: what the text held at its end, and the most at once.
Json RunCommand::GroupsJson(const Collector& result) const {
  const kv::KvLayout& layout = session_.engine().cache().layout();
  Json groups = Json::array();
  for (std::uint32_t g = 0; g < result.groups.size(); ++g) {
    const kv::LaneGroup& group = layout.group(g);
    groups.push_back({{"name", group.name()},
                      {"window_tokens", group.spec().window},
                      {"block_bytes", group.block_bytes()},
                      {"bytes_used", result.groups[g].bytes},
                      {"bytes_peak", result.groups[g].peak_bytes}});
  }
  return groups;
}

void RunCommand::PrintJson(const Collector& result) const {
  const engine::ServiceInfo& info = session_.engine().info();
  const engine::Usage& usage = result.usage;
  text::Detokenizer detokenizer(session_.tokenizer(), {.continues_text = true});
  std::string text;
  for (const TokenId token : result.tokens) text += detokenizer.Push(token);
  text += detokenizer.Finish();
  Json json = {
      {"text", text},
      {"token_ids", result.tokens},
      {"prompt_tokens", usage.prompt_tokens},
      {"cached_tokens", usage.cached_tokens},
      {"completion_tokens", usage.completion_tokens},
      {"finish_reason", engine::NameOf(result.reason.value_or(engine::FinishReason::kError))},
      {"ttft_ms", static_cast<double>(usage.ttft_ns) * 1e-6},
      {"prefill_tokens_per_s",
       PerSecond(usage.prompt_tokens - usage.cached_tokens, usage.prefill_ns)},
      {"decode_tokens_per_s",
       PerSecond(usage.completion_tokens > 0 ? usage.completion_tokens - 1 : 0, usage.decode_ns)},
      {"kv",
       {{"codec", info.kv_codec},
        {"block_tokens", info.block_tokens},
        {"bytes_per_token", info.kv_bytes_per_token},
        {"bytes_used", usage.kv_bytes},
        {"bytes_reserved", info.kv_bytes_reserved},
        {"groups", GroupsJson(result)}}},
      {"memory", MemoryJson(session_.memory())}};
  if (flags_.logprobs) {
    Json entries = Json::array();
    for (const engine::TokenLogprobs& token : result.logprobs) {
      Json top = Json::array();
      for (const auto& [id, logprob] : token.top) top.push_back({{"id", id}, {"logprob", logprob}});
      entries.push_back({{"id", token.token}, {"logprob", token.logprob}, {"top", top}});
    }
    json["logprobs"] = entries;
  }
  fmt::print("{}\n", json.dump());
}

void RunCommand::PrintTimings(const Collector& result) const {
  const engine::Usage& usage = result.usage;
  ASHLAR_LOG_INFO(
      "prompt {} tokens, {:.0f} tokens/s; completion {} tokens, {:.1f} tokens/s; first token after "
      "{:.0f} ms; stopped by {}",
      usage.prompt_tokens, PerSecond(usage.prompt_tokens - usage.cached_tokens, usage.prefill_ns),
      usage.completion_tokens,
      PerSecond(usage.completion_tokens > 0 ? usage.completion_tokens - 1 : 0, usage.decode_ns),
      static_cast<double>(usage.ttft_ns) * 1e-6,
      engine::NameOf(result.reason.value_or(engine::FinishReason::kError)));
}

void AddSamplingFlags(CLI::App& command, model::SamplingParams& sampling) {
  command.add_option("--temperature", sampling.temperature, "0 = always the likeliest token")
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "keep the k likeliest tokens; 0 = all")
      ->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "keep the likeliest tokens up to this probability")
      ->capture_default_str();
  command
      .add_option("--min-p", sampling.min_p, "drop tokens less likely than this share of the best")
      ->capture_default_str();
  command.add_option("--repetition-penalty", sampling.repetition_penalty, "1 = none")
      ->capture_default_str();
  command.add_option("--presence-penalty", sampling.presence_penalty, "-2 to 2")
      ->capture_default_str();
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "-2 to 2")
      ->capture_default_str();
  command.add_option("--seed", sampling.seed, "seed of the draws")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

}  // namespace

CommandBody AddRunCommand(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* const command =
      app.add_subcommand("run", "answer one prompt, or chat, in the terminal");
  AddEngineFlags(*command, flags->engine);
  AddSamplingFlags(*command, flags->sampling);
  command->add_option("-p,--prompt,prompt", flags->prompt, "the prompt");
  command->add_option("--prompt-ids", flags->prompt_ids,
                      "file with a JSON array of prompt token ids");
  command->add_option("--system", flags->system, "system message of the chat");
  command->add_flag("--chat", flags->is_chat,
                    "read one message per line from stdin and answer each");
  command->add_flag("--raw", flags->is_raw, "use the prompt as it is, without the chat template");
  command->add_flag("--json", flags->as_json, "print one JSON object");
  command->add_flag("--ignore-eos", flags->ignores_eos, "do not stop at end-of-text tokens");
  command->add_option("-n,--max-tokens", flags->max_tokens, "tokens to generate at the most")
      ->capture_default_str();
  command->add_option("--logprobs", flags->logprobs,
                      "with --json: this many likeliest tokens each");
  command->add_option("--logits-out", flags->logits_out,
                      "write f32 logits [prompt + completion tokens, vocab] to this file");
  return [flags]() -> Status {
    const int sources = (flags->prompt.empty() ? 0 : 1) + (flags->prompt_ids.empty() ? 0 : 1) +
                        (flags->is_chat ? 1 : 0);
    if (sources != 1) {
      return MakeError(
          ErrorCode::kInvalidArgument,
          "give exactly one of a prompt (--prompt TEXT), --prompt-ids FILE and --chat");
    }
    if (flags->is_chat && (flags->as_json || flags->is_raw)) {
      return MakeError(ErrorCode::kInvalidArgument, "--chat goes with neither --json nor --raw");
    }
    ASHLAR_ASSIGN(const auto session, Session::Open(flags->engine));
    return RunCommand(*flags, *session).Run();
  };
}

}  // namespace ashlar::apps
