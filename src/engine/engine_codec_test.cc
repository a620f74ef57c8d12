// The engine over encoded blocks: nothing changes but the bits, and those depend on nothing but the
// codec.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

std::vector<TokenId> Prompt(std::size_t tokens, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> prompt(tokens);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % 250);
  return prompt;
}

EngineOptions OptionsFor(const std::string& codec) {
  EngineOptions options = TinyEngine::DefaultOptions();
  options.kv_codec = *model::ParseKvCodecSpec(codec);
  return options;
}

void RunAll(Engine& engine) {
  while (engine.Step()) engine.cache().CheckInvariants();
}

class EngineCodec : public testing::TestWithParam<std::string> {};

TEST_P(EngineCodec, PrefixesColdCachedAloneAndInCompanyGiveTheSameBits) {
  const std::vector<TokenId> system = Prompt(100, 7);
  std::vector<GenerationRequest> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    GenerationRequest request = {.prompt = system,
                                 .sampling = {.temperature = i % 2 == 0 ? 0.0 : 0.8, .seed = i},
                                 .max_tokens = 5 + 7 * i,
                                 .top_logprobs = 5};
    const std::vector<TokenId> own = Prompt(1 + 13 * i, 70 + i);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    requests.push_back(std::move(request));
  }
  std::vector<std::shared_ptr<RecordingSink>> cold;
  for (const GenerationRequest& request : requests) {
    EngineOptions options = OptionsFor(GetParam());
    options.reuse = kv::Reuse::kOff;
    TinyEngine engine(options);
    cold.push_back(std::make_shared<RecordingSink>());
    engine->Submit(RequestId(1), request, cold.back(), 0);
    RunAll(*engine);
    ASSERT_EQ(cold.back()->reason, FinishReason::kLength);
    EXPECT_EQ(cold.back()->usage.cached_tokens, 0u);
  }
  for (const std::uint32_t chunk : {7u, 64u}) {
    EngineOptions options = OptionsFor(GetParam());
    options.limits.prefill_chunk = chunk;
    TinyEngine engine(options, /*threads=*/2);
    std::vector<std::shared_ptr<RecordingSink>> warm;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      warm.push_back(std::make_shared<RecordingSink>());
      engine->Submit(RequestId(i), requests[i], warm.back(), 0);
    }
    RunAll(*engine);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      // Whole blocks only: 96 of the 100 common tokens.
      EXPECT_EQ(warm[i]->usage.cached_tokens, i == 0 ? 0u : 96u) << i;
      EXPECT_EQ(warm[i]->tokens, cold[i]->tokens) << i;
      for (std::size_t t = 0; t < cold[i]->logprobs.size(); ++t) {
        EXPECT_EQ(warm[i]->logprobs[t].top, cold[i]->logprobs[t].top) << i << " " << t;
      }
    }
    EXPECT_EQ(engine->cache().live_bytes(), 0u);
  }
}

TEST_P(EngineCodec, AWholePromptThatIsKnownComputesItsLastBlock) {
  TinyEngine engine(OptionsFor(GetParam()));
  for (const auto& [size, cached] : {std::pair{15u, 0u}, {16u, 0u}, {32u, 16u}, {40u, 32u}}) {
    std::vector<std::vector<TokenId>> tokens;
    for (int turn = 0; turn < 2; ++turn) {
      const auto sink = std::make_shared<RecordingSink>();
      engine->Submit(
          RequestId(1),
          {.prompt = Prompt(size, 100 + size), .sampling = {.temperature = 0}, .max_tokens = 4},
          sink, 0);
      RunAll(*engine);
      EXPECT_EQ(sink->usage.cached_tokens, turn == 0 ? 0u : cached) << size;
      tokens.push_back(sink->tokens);
    }
    EXPECT_EQ(tokens[1], tokens[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EngineCodec,
                         testing::Values("q8", "k=hq4,v=hq4,edge=1@hq8", "k=f16,v=hq6", "kc4",
                                         "hlm3", "fp8"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// A model whose keys are beyond f16.
class LargeKeys {
 public:
  LargeKeys() {
    gguf::GgufWriter writer = model::MakeTinyModel(TinyEngineModel());
    const std::vector<float> bias(16, 1e6f);
    writer.AddFloats("blk.1.attn_k.bias", {16}, bias);
    bytes_ = writer.Build();
    file_ = std::make_unique<gguf::ModelFile>(*gguf::ModelFile::Parse(bytes_, "tiny"));
    model_ = *model::Model::Load(*file_, pool_, nullptr);
  }
  std::unique_ptr<Engine> EngineFor(const std::string& codec) {
    return *Engine::Create(*model_, kernels::KernelsFor(kernels::BestIsa()), pool_, clock_,
                           OptionsFor(codec));
  }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<gguf::ModelFile> file_;
  ThreadPool pool_{1};
  SteadyClock clock_;
  std::unique_ptr<const model::Model> model_;
};

TEST(EngineRefusal, KeysBeyondTheFormatAreAnErrorOnTheRequestCountedAndNotStored) {
  LargeKeys model;
  std::uint64_t refused = 0;
  for (const std::string codec : {"f16", "q8", "k=hq4,v=f32"}) {
    const std::unique_ptr<Engine> engine = model.EngineFor(codec);
    for (std::uint64_t turn = 1; turn <= 2; ++turn) {
      const auto sink = std::make_shared<RecordingSink>();
      engine->Submit(RequestId(turn), {.prompt = Prompt(40, 3), .max_tokens = 5}, sink, 0);
      RunAll(*engine);
      EXPECT_EQ(sink->finishes, 1);
      EXPECT_EQ(sink->reason, FinishReason::kError) << codec;
      EXPECT_NE(sink->error.find("--kv-codec"), std::string::npos) << sink->error;
      EXPECT_TRUE(sink->tokens.empty());
      EXPECT_EQ(sink->usage.cached_tokens, 0u);
      refused = engine->stats().kv_refused;
      EXPECT_EQ(refused, turn);
      EXPECT_EQ(engine->cache().live_bytes(), 0u);
      EXPECT_EQ(engine->cache().idle_bytes(), 0u);
    }
  }
  for (const std::string codec : {"f32", "bf16"}) {
    const std::unique_ptr<Engine> engine = model.EngineFor(codec);
    const auto sink = std::make_shared<RecordingSink>();
    engine->Submit(RequestId(1), {.prompt = Prompt(40, 3), .max_tokens = 5}, sink, 0);
    RunAll(*engine);
    EXPECT_EQ(sink->reason, FinishReason::kLength) << codec;
    EXPECT_EQ(engine->stats().kv_refused, 0u);
  }
}

}  // namespace
}  // namespace ashlar::engine
