// Principle 2 with the real model: eight conversations that share a system prompt of 3,000 tokens,
// all at once. Every distinct prompt token is computed exactly once, and every logit of every
// position that is computed is the same bits as in a run without the prefix cache.
//
//   prefix_reuse_test [--all] MODEL.gguf
//
// A cold run computes 3,000 tokens, so only some conversations are compared unless --all says so.
//
// Of a model with sliding windows (Gemma 3) it is prefixes of many lengths, below, at and beyond
// the window and at any place in a block, after a text that has passed its windows: each is served
// whole, and no logit differs from those of one cold run. And what the sliding layers held, to the
// byte.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "gguf/model_file.h"
#include "kernels/kernel_set.h"
#include "model/model.h"

namespace ashlar {
namespace {

constexpr std::size_t kShared = 3000;
constexpr std::size_t kConversations = 8;
constexpr std::uint64_t kGenerated = 4;

// Keeps the logits of the positions from `first` on.
class LogitSink final : public engine::EventSink {
 public:
  explicit LogitSink(std::uint64_t first) : first_(first) {}
  void OnMemory(std::span<const engine::KvGroupUse> use) override {
    groups.assign(use.begin(), use.end());
  }
  void OnToken(TokenId token, const engine::TokenLogprobs*) override { tokens.push_back(token); }
  void OnLogits(std::uint64_t position, std::span<const float> row) override {
    if (position >= first_) logits[position].assign(row.begin(), row.end());
  }
  void OnFinish(engine::FinishReason why, const engine::Usage& used, std::string_view) override {
    ASHLAR_CHECK(why == engine::FinishReason::kLength, "finished: {}", engine::NameOf(why));
    usage = used;
  }

  std::vector<TokenId> tokens;
  std::map<std::uint64_t, std::vector<float>> logits;
  std::vector<engine::KvGroupUse> groups;
  engine::Usage usage;

 private:
  std::uint64_t first_;
};

std::vector<TokenId> Text(std::uint64_t seed, std::size_t tokens, std::uint32_t vocab) {
  std::vector<TokenId> text(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    text[i] = static_cast<TokenId>(RandomBits(seed, 0, i) % vocab);
  }
  return text;
}

struct Machine {
  const model::Model& model;
  ThreadPool& pool;
  const Clock& clock;

  std::unique_ptr<engine::Engine> Make(const model::KvCodecSpec& codec, kv::Reuse reuse) const {
    engine::EngineOptions options{
        .kv_codec = codec, .kv_memory_bytes = std::uint64_t{3} << 30, .reuse = reuse};
    auto engine = engine::Engine::Create(model, kernels::KernelsFor(kernels::BestIsa()), pool,
                                         clock, options);
    ASHLAR_CHECK(engine.ok(), "{}", engine.error().message);
    return *std::move(engine);
  }

  // All requests at once.
  std::vector<std::shared_ptr<LogitSink>> Run(std::vector<engine::GenerationRequest> requests,
                                              const model::KvCodecSpec& codec,
                                              kv::Reuse reuse) const {
    const auto engine = Make(codec, reuse);
    std::vector<std::shared_ptr<LogitSink>> sinks;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      sinks.push_back(std::make_shared<LogitSink>(kShared - 16));
      engine->Submit(RequestId(i), std::move(requests[i]), sinks.back(), 0);
    }
    while (engine->Step()) {
    }
    engine->cache().CheckInvariants();
    return sinks;
  }
};

void Check(const Machine& machine, const model::KvCodecSpec& codec, std::size_t cold_runs) {
  const std::uint32_t vocab = machine.model.config().vocab;
  const std::vector<TokenId> shared = Text(1, kShared, vocab);
  std::vector<engine::GenerationRequest> requests;
  std::uint64_t distinct = kShared;
  for (std::size_t i = 0; i < kConversations; ++i) {
    engine::GenerationRequest request{.prompt = shared,
                                      .sampling = {.temperature = 0},
                                      .max_tokens = kGenerated,
                                      .report_logits = engine::LogitReport::kComputed};
    const std::vector<TokenId> own = Text(2 + i, 20 + 7 * i, vocab);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    distinct += own.size();
    requests.push_back(std::move(request));
  }
  const auto warm = machine.Run(requests, codec, kv::Reuse::kOn);
  std::uint64_t computed = 0;
  for (std::size_t i = 0; i < kConversations; ++i) {
    computed += requests[i].prompt.size() - warm[i]->usage.cached_tokens;
  }
  // Encoded codecs share whole blocks: what the shared text has beyond them, each computes itself.
  const bool is_raw = IsRaw(codec.full.key) && IsRaw(codec.full.value);
  const std::uint64_t again = is_raw ? 0 : (kConversations - 1) * (kShared % 16);
  ASHLAR_CHECK(computed == distinct + again, "{} prompt tokens were computed, {} are distinct",
               computed, distinct);
  std::size_t compared = 0;
  for (std::size_t i = 0; i < cold_runs; ++i) {
    const std::size_t which = kConversations - 1 - i;
    const auto cold = machine.Run({requests[which]}, codec, kv::Reuse::kOff)[0];
    ASHLAR_CHECK(cold->usage.cached_tokens == 0, "a cold run");
    ASHLAR_CHECK(warm[which]->tokens == cold->tokens, "conversation {}: other tokens", which);
    for (const auto& [position, logits] : warm[which]->logits) {
      ASHLAR_CHECK(cold->logits.at(position) == logits, "conversation {}: logits at {} differ",
                   which, position);
      ++compared;
    }
  }
  std::printf(
      "%s: %zu conversations, %llu prompt tokens, %llu computed, %llu distinct; logits of "
      "%zu positions equal the cold runs bit for bit\n",
      codec.name.c_str(), kConversations,
      static_cast<unsigned long long>(distinct + (kConversations - 1) * kShared),
      static_cast<unsigned long long>(computed), static_cast<unsigned long long>(distinct),
      compared);
}

// Only computes the prompt.
std::shared_ptr<LogitSink> Prefill(engine::Engine& engine, std::span<const TokenId> prompt,
                                   std::uint64_t first, engine::LogitReport report) {
  static std::uint64_t requests = 0;
  const auto sink = std::make_shared<LogitSink>(first);
  engine.Submit(
      RequestId(++requests),
      {.prompt = {prompt.begin(), prompt.end()}, .max_tokens = 0, .report_logits = report}, sink,
      0);
  while (engine.Step()) {
  }
  return sink;
}

// Where a prompt ends: few tokens, about the window, two of them, and every place in a block.
std::vector<std::size_t> PromptLengths(std::size_t window, std::size_t most) {
  std::vector<std::size_t> lengths = {2, 17, window - 1, window, window + 1, window + 2};
  for (std::size_t n = 100; n <= most; n += 37) lengths.push_back(n);
  std::erase_if(lengths, [&](std::size_t n) { return n > most; });
  return lengths;
}

void CheckWindows(const Machine& machine, const model::KvCodecSpec& codec, std::size_t most) {
  constexpr std::size_t kChunk = 256;  // the engine's default
  constexpr std::size_t kAfter = 60;
  const auto warm = machine.Make(codec, kv::Reuse::kOn);
  const kv::KvLayout& layout = warm->cache().layout();
  ASHLAR_CHECK(layout.groups().size() == 2 && layout.group(1).has_window(),
               "a layout of {} groups; a full and a sliding one are wanted",
               layout.groups().size());
  const std::size_t window = layout.group(1).spec().window;
  const std::vector<TokenId> text = Text(1, most, machine.model.config().vocab);
  std::vector<TokenId> longer = text;  // the text as others went on with it
  for (const TokenId token : Text(2, kAfter, machine.model.config().vocab)) longer.push_back(token);
  const auto base = Prefill(*warm, longer, longer.size(), engine::LogitReport::kNone);
  std::size_t compared = 0;
  std::map<std::uint64_t, std::vector<float>> cold;
  {
    const auto engine = machine.Make(codec, kv::Reuse::kOff);
    cold = Prefill(*engine, text, 0, engine::LogitReport::kAll)->logits;
  }
  const bool is_raw = !layout.group(0).is_encoded();
  const std::vector<std::size_t> lengths = PromptLengths(window, most);
  for (const std::size_t length : lengths) {
    const auto got =
        Prefill(*warm, std::span(text).first(length), 0, engine::LogitReport::kComputed);
    // One token is always computed; codes are shared by whole blocks.
    const std::size_t served = is_raw ? length - 1 : (length - 1) / 16 * 16;
    ASHLAR_CHECK(got->usage.cached_tokens == served, "{} of {} tokens were served; {} are known",
                 got->usage.cached_tokens, length, served);
    ASHLAR_CHECK(got->logits.size() == length - served, "{} positions computed",
                 got->logits.size());
    for (const auto& [position, logits] : got->logits) {
      ASHLAR_CHECK(cold.at(position) == logits, "prompt of {} tokens: logits at {} differ", length,
                   position);
      ++compared;
    }
  }
  warm->cache().CheckInvariants();
  const auto bytes_of = [&](std::uint32_t group, std::size_t tokens) {
    const kv::LaneGroup& lanes = layout.group(group);
    return (tokens + 15) / 16 * lanes.block_bytes() + lanes.open_block_bytes();
  };
  ASHLAR_CHECK(base->groups[0].peak_bytes == bytes_of(0, longer.size()), "{} bytes of full layers",
               base->groups[0].peak_bytes);
  const std::uint64_t most_sliding = bytes_of(1, std::min(longer.size(), window + kChunk));
  ASHLAR_CHECK(base->groups[1].peak_bytes == most_sliding,
               "{} bytes of sliding layers; a window and a chunk are {}",
               base->groups[1].peak_bytes, most_sliding);
  std::printf(
      "%s: %zu prompts of 2 to %zu tokens, all but their ends served; logits of %zu positions "
      "equal "
      "the cold run bit for bit; a text of %zu held %llu bytes in full layers, at most %llu in "
      "sliding "
      "ones\n",
      codec.name.c_str(), lengths.size(), most, compared, longer.size(),
      static_cast<unsigned long long>(base->groups[0].peak_bytes),
      static_cast<unsigned long long>(base->groups[1].peak_bytes));
}

int Main(const char* path, bool all) {
  const auto file = gguf::ModelFile::Open(path);
  ASHLAR_CHECK(file.ok(), "{}", file.error().message);
  ThreadPool pool(2);
  const SteadyClock clock;
  const auto model = model::Model::Load(*file, pool, nullptr);
  ASHLAR_CHECK(model.ok(), "{}", model.error().message);
  const Machine machine{.model = **model, .pool = pool, .clock = clock};
  const model::ModelConfig& config = (*model)->config();
  bool has_windows = false;
  for (std::size_t i = 0; i < config.layers; ++i) has_windows |= config.LayerAt(i).window > 0;
  if (has_windows) {
    CheckWindows(machine, *model::ParseKvCodecSpec("f16"), all ? 3000 : 1100);
    CheckWindows(machine, *model::ParseKvCodecSpec("q8"), all ? 3000 : 530);
    return 0;
  }
  Check(machine, *model::ParseKvCodecSpec("f16"), all ? kConversations : 2);
  if (all) Check(machine, *model::ParseKvCodecSpec("f32"), kConversations);
  Check(machine, *model::ParseKvCodecSpec("q8"), all ? kConversations : 1);
  if (all) Check(machine, *model::ParseKvCodecSpec("q4"), kConversations);
  return 0;
}

}  // namespace
}  // namespace ashlar

int main(int argc, char** argv) {
  const bool all = argc == 3 && std::string_view(argv[1]) == "--all";
  if (argc != 2 && !all) {
    std::fprintf(stderr, "usage: %s [--all] MODEL.gguf\n", argv[0]);
    return 2;
  }
  return ashlar::Main(argv[argc - 1], all);
}
