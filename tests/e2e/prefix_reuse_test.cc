// Principle 2 with the real model: eight conversations that share a system prompt of 3,000 tokens,
// all at once. Every distinct prompt token is computed exactly once, and every logit of every
// position that is computed is the same bits as in a run without the prefix cache.
//
//   prefix_reuse_test [--all] MODEL.gguf
//
// A cold run computes 3,000 tokens, so only some conversations are compared unless --all says so.
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

  // All requests at once.
  std::vector<std::shared_ptr<LogitSink>> Run(std::vector<engine::GenerationRequest> requests,
                                              const model::KvCodecSpec& codec,
                                              kv::Reuse reuse) const {
    engine::EngineOptions options{
        .kv_codec = codec, .kv_memory_bytes = std::uint64_t{3} << 30, .reuse = reuse};
    auto engine = engine::Engine::Create(model, kernels::KernelsFor(kernels::BestIsa()), pool,
                                         clock, options);
    ASHLAR_CHECK(engine.ok(), "{}", engine.error().message);
    std::vector<std::shared_ptr<LogitSink>> sinks;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      sinks.push_back(std::make_shared<LogitSink>(kShared - 16));
      (*engine)->Submit(RequestId(i), std::move(requests[i]), sinks.back(), 0);
    }
    while ((*engine)->Step()) {
    }
    (*engine)->cache().CheckInvariants();
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

int Main(const char* path, bool all) {
  const auto file = gguf::ModelFile::Open(path);
  ASHLAR_CHECK(file.ok(), "{}", file.error().message);
  ThreadPool pool(2);
  const SteadyClock clock;
  const auto model = model::Model::Load(*file, pool, nullptr);
  ASHLAR_CHECK(model.ok(), "{}", model.error().message);
  const Machine machine{.model = **model, .pool = pool, .clock = clock};
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
