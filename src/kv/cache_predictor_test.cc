// What is predicted is what is used: BlocksNeeded, BlocksHeld, HeldBlocks and BlocksNeededToFork
// against the blocks that sequences really hold, for every length.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::CacheScene;
using testing::First;
using testing::LayoutNamed;
using testing::Text;
using testing::Tokens;

constexpr std::uint64_t kLongest = 300;

class CachePredictor : public ::testing::TestWithParam<std::string> {
 protected:
  CachePredictor() : scene_(LayoutNamed(GetParam()), {.memory_bytes = 1u << 20}) {}

  std::uint32_t groups() { return scene_->core().groups(); }
  std::uint32_t store_groups() { return scene_->core().store_groups(); }
  std::vector<std::uint64_t> Live() {
    std::vector<std::uint64_t> live;
    live.reserve(store_groups());
    for (std::uint32_t g = 0; g < store_groups(); ++g) {
      live.push_back(scene_->core().pool.pinned(g) + scene_->core().pool.promised(g));
    }
    return live;
  }
  // The most blocks held at once by a sequence cut into a first piece and pieces of `chunk`. Each
  // piece must hold what BlocksHeld says.
  void RaisePeaks(std::span<const TokenId> text, std::uint64_t first, std::uint64_t chunk,
                  std::vector<std::uint64_t>& peaks) {
    Tokens prompt(text.begin(), text.end());
    Sequence sequence = scene_.Start(prompt, {.chunk = chunk, .reuse = Reuse::kOff});
    for (std::uint64_t at = 0, piece = first; at < text.size(); piece = chunk) {
      const std::uint64_t count = std::min<std::uint64_t>(piece, text.size() - at);
      ASSERT_TRUE(sequence.Prepare(count));
      for (std::uint32_t g = 0; g < groups(); ++g) {
        const std::uint64_t held = CacheScene::HeldBy(sequence, g);
        ASSERT_EQ(held, scene_->layout().group(g).BlocksHeld(at, count))
            << "group " << g << " at " << at << " + " << count;
        peaks[g] = std::max(peaks[g], held);
      }
      for (std::uint32_t g = groups(); g < store_groups(); ++g) {
        peaks[g] = std::max(peaks[g], scene_->core().pool.pinned(g));
      }
      sequence.Commit(text.subspan(at, count));
      at += count;
      std::vector<std::uint64_t> held;
      scene_->layout().HeldBlocks(at, held);
      ASSERT_EQ(scene_->layout().BytesOf(held), sequence.bytes()) << "after " << at << " tokens";
    }
  }

  CacheScene scene_;
};

TEST_P(CachePredictor, BlocksNeededIsTheMostThatIsHeldAtEveryLengthAndChunk) {
  const Tokens text = Text(1, kLongest);
  for (const std::uint64_t chunk : {1u, 7u, 16u, 17u, 40u, 300u}) {
    for (std::uint64_t n = 1; n <= kLongest; ++n) {
      const std::span<const TokenId> tokens = std::span(text).first(n);
      std::vector<std::uint64_t> needed;
      scene_->BlocksNeeded({.max_tokens = n, .chunk = chunk}, needed);
      std::vector<std::uint64_t> peaks(store_groups());
      // A piece of every length first: so later ones begin at every position.
      for (std::uint64_t first = 1; first <= std::min(chunk, n); ++first) {
        RaisePeaks(tokens, first, chunk, peaks);
      }
      ASSERT_EQ(peaks, needed) << n << " tokens in pieces of " << chunk;
    }
  }
}

TEST_P(CachePredictor, AdmissionPromisesBlocksNeededLessWhatIsSharedWithTheLiving) {
  const Tokens text = Text(1, kLongest);
  Sequence living = scene_.Start(First(text, 150));
  scene_.Finish(living, First(text, 150));
  for (std::uint64_t n = 1; n <= kLongest; ++n) {
    const AdmitOptions options{.max_tokens = n + n % 50, .chunk = 1 + n % 20};
    std::vector<std::uint64_t> needed;
    scene_->BlocksNeeded(options, needed);
    const std::vector<std::uint64_t> before = Live();
    const Sequence sequence = scene_.Start(First(text, n), options);
    const std::vector<std::uint64_t> after = Live();
    for (std::uint32_t g = 0; g < store_groups(); ++g) {
      // In a group with a window the pins are what is paid for. Open blocks are nobody else's.
      const bool shares = g < groups() && !scene_->layout().group(g).has_window();
      const std::uint64_t shared = shares ? sequence.size() / 16 : 0;
      ASSERT_EQ(after[g] - before[g], needed[g] - shared) << "group " << g << ", " << n;
    }
  }
}

TEST_P(CachePredictor, ForkUsesBlocksNeededToForkAndBothCanGoOn) {
  const Tokens text = Text(1, kLongest);
  std::optional<Sequence> sequence = scene_.Start(text, {.max_tokens = 330, .chunk = 5});
  std::vector<std::uint64_t> needed;
  for (std::uint64_t n = 1; n <= kLongest; ++n) {
    ASSERT_TRUE(scene_.Compute(*sequence, std::span(text).subspan(n - 1, 1)));
    const std::vector<std::uint64_t> before = Live();
    sequence->BlocksNeededToFork(n + 30, needed);
    std::optional<Sequence> fork = sequence->Fork(n + 30);
    ASSERT_TRUE(fork);
    std::vector<std::uint64_t> after = Live();
    for (std::uint32_t g = 0; g < store_groups(); ++g) ASSERT_EQ(after[g] - before[g], needed[g]);
    // The fork writes first, all it was promised, with no more memory.
    ASSERT_TRUE(scene_.Compute(*fork, Text(2, 30), 5));
    std::vector<std::uint64_t> now = Live();
    for (std::uint32_t g = 0; g < store_groups(); ++g) ASSERT_LE(now[g], after[g]);
    if (n % 7 == 0) {
      scene_.Check(*fork);
      scene_.Check(*sequence);
    }
  }
}

TEST_P(CachePredictor, EverySequenceThatFitsAloneIsAdmittedAloneAndNoLonger) {
  CacheScene scene(LayoutNamed(GetParam()),
                   {.memory_bytes = testing::BytesOfOneOfEach(LayoutNamed(GetParam())) * 12});
  for (const std::uint64_t chunk : {1u, 16u, 50u}) {
    constexpr std::uint64_t kLimit = 4096;  // with windows, all lengths fit
    const std::uint64_t most = scene->MaxTokens(kLimit, chunk);
    for (const std::uint64_t n : {most, most + 1}) {
      if (n > kLimit) continue;
      const Tokens text = Text(n, n);
      const AdmitOptions options{.max_tokens = n, .chunk = chunk, .reuse = Reuse::kOff};
      EXPECT_EQ(scene->CouldEverFit(options), n == most);
      Admission admission = scene.Admit(text, options);
      ASSERT_EQ(admission.status == AdmitStatus::kAdmitted, n == most) << n << " of " << most;
      if (n > most) continue;
      ASSERT_TRUE(scene.Compute(*admission.sequence, text, chunk));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, CachePredictor,
                         ::testing::Values("full", "window", "sinks", "hybrid", "mixed", "encoded",
                                           "codecs"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace ashlar::kv
