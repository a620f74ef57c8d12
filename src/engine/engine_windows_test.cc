// Models with sliding windows have two lane groups, of which one forgets: what a prompt finds in
// the cache, and what a sequence holds.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/testing/tiny_engine.h"

namespace ashlar::engine {
namespace {

constexpr std::uint32_t kChunk = 16;

// Gemma 3's pattern, five sliding layers to a full one, with windows of 24 tokens.
model::TinyModelOptions Gemma() {
  model::TinyModelOptions options = *model::FindTinyModel("gemma3");
  options.hidden = 64;
  options.feed_forward = 96;
  return options;
}

std::vector<TokenId> Text(std::uint64_t seed, std::size_t tokens) {
  std::vector<TokenId> text(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    text[i] = static_cast<TokenId>(RandomBits(seed, 0, i) % model::kTinyVocab);
  }
  return text;
}

class EngineWindows : public testing::TestWithParam<std::string> {
 protected:
  static EngineOptions Options(kv::Reuse reuse) {
    EngineOptions options = TinyEngine::DefaultOptions();
    options.kv_memory_bytes = 32 << 20;  // nothing is replaced
    options.kv_codec = *model::ParseKvCodecSpec(GetParam());
    options.limits.prefill_chunk = kChunk;
    options.reuse = reuse;
    return options;
  }

  std::shared_ptr<RecordingSink> Run(Engine& engine, std::vector<TokenId> prompt,
                                     std::uint64_t max_tokens) {
    const auto sink = std::make_shared<RecordingSink>();
    engine.Submit(RequestId(++requests_),
                  {.prompt = std::move(prompt),
                   .max_tokens = max_tokens,
                   .report_logits = LogitReport::kComputed},
                  sink, 0);
    while (engine.Step()) {
    }
    engine.cache().CheckInvariants();
    return sink;
  }

 private:
  std::uint64_t requests_ = 0;
};

// Below the window, at it, beyond it, and at every place in a block.
TEST_P(EngineWindows, APrefixOfAnyLengthIsServedAndNoLogitDiffersFromAColdRun) {
  constexpr std::size_t kText = 112;  // more than four windows
  TinyEngine warm(Options(kv::Reuse::kOn), 1, nullptr, Gemma());
  TinyEngine cold(Options(kv::Reuse::kOff), 1, nullptr, Gemma());
  ASSERT_EQ(warm->cache().layout().groups().size(), 2u);
  const bool is_raw = !warm->cache().layout().group(0).is_encoded();
  const std::vector<TokenId> text = Text(1, kText);
  Run(*warm, text, 0);
  for (std::size_t length = 1; length < kText; length += is_raw ? 1 : 5) {
    std::vector<TokenId> prompt(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
    prompt.push_back((text[length] + 1) % model::kTinyVocab);  // not the text's
    const std::vector<TokenId> own = Text(2, 5);
    prompt.insert(prompt.end(), own.begin(), own.end());
    const auto got = Run(*warm, prompt, 3);
    const auto want = Run(*cold, prompt, 3);
    ASSERT_EQ(want->usage.cached_tokens, 0u);
    // Codes are shared by whole blocks.
    const std::size_t served = is_raw ? length : length / 16 * 16;
    ASSERT_EQ(got->usage.cached_tokens, served) << length;
    ASSERT_EQ(got->tokens, want->tokens) << length;
    ASSERT_EQ(got->logits.size() + served, want->logits.size());
    for (std::size_t i = 0; i < got->logits.size(); ++i) {
      ASSERT_EQ(got->positions[i], want->positions[served + i]);
      ASSERT_EQ(got->logits[i], want->logits[served + i])
          << "position " << got->positions[i] << " after a prefix of " << length;
    }
  }
}

TEST_P(EngineWindows, ASequenceHoldsItsWindowAndAChunkOfTheSlidingLayers) {
  TinyEngine engine(Options(kv::Reuse::kOn), 1, nullptr, Gemma());
  const kv::KvLayout& layout = engine->cache().layout();
  const auto sink = Run(*engine, Text(3, 400), 20);
  const std::uint64_t stored = 400 + 20;
  ASSERT_EQ(sink->groups.size(), 2u);
  std::uint64_t held = 0;
  for (std::uint32_t g = 0; g < 2; ++g) {
    const kv::LaneGroup& group = layout.group(g);
    const std::uint64_t open = group.open_block_bytes();
    const KvGroupUse& use = sink->groups[g];
    held += use.bytes;
    if (!group.has_window()) {
      EXPECT_EQ(use.bytes, (stored + 15) / 16 * group.block_bytes() + open);
      EXPECT_EQ(use.peak_bytes, use.bytes);
      continue;
    }
    // Chunks begin where blocks do: a window of 24 reaches two blocks back, and a chunk is one.
    EXPECT_EQ(use.peak_bytes, 3 * group.block_bytes() + open);
    EXPECT_LE(use.bytes, use.peak_bytes);
    EXPECT_LE(use.peak_bytes, group.PeakBlocks(stored, kChunk) * group.block_bytes() + open);
  }
  EXPECT_EQ(held, sink->usage.kv_bytes);
}

INSTANTIATE_TEST_SUITE_P(Codecs, EngineWindows, testing::Values("f16", "q8"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace ashlar::engine
