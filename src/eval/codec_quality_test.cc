#include "eval/codec_quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "gguf/model_file.h"
#include "model/testing/tiny_model.h"

namespace ashlar::eval {
namespace {

class CodecQualityTest : public testing::Test {
 protected:
  CodecQualityTest()
      : bytes_(model::MakeTinyModel({.layers = 2,
                                     .hidden = 32,
                                     .feed_forward = 48,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .head_dim = 16,
                                     .rope_dims = 16,
                                     .context = 128})
                   .Build()),
        file_(*gguf::ModelFile::Parse(bytes_, "tiny")),
        pool_(1),
        model_(*model::Model::Load(file_, pool_, nullptr)) {}

  static Windows RandomWindows(std::size_t count, std::size_t tokens) {
    Windows windows(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t at = 0; at < tokens; ++at) {
        windows[i].push_back(static_cast<TokenId>(RandomBits(11, i, at) % model::kTinyVocab));
      }
    }
    return windows;
  }

  Result<QualityReport> Measure(const Windows& windows, const QualityOptions& options,
                                std::size_t threads = 1) {
    ThreadPool pool(threads);
    return MeasureCodecs({*model_, kernels::KernelsFor(kernels::BestIsa()), pool}, windows, options,
                         [&](std::uint64_t done, std::uint64_t all) {
                           done_ = done;
                           all_ = all;
                         });
  }
  std::string Refusal(const Windows& windows, const QualityOptions& options) {
    const auto report = Measure(windows, options);
    if (report.ok()) return "";
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
    return report.error().message;
  }

  std::vector<std::byte> bytes_;
  gguf::ModelFile file_;
  ThreadPool pool_;
  std::unique_ptr<const model::Model> model_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

auto Figures(const CodecQuality& q) {
  return std::tuple(q.codec, q.kv_bytes_per_token, q.positions, q.mean_kl_nats,
                    q.mean_kl_stderr_nats, q.p99_kl_nats, q.max_kl_nats, q.same_top1_share,
                    q.perplexity_f32, q.perplexity, q.perplexity_change_percent,
                    q.perplexity_change_stderr_percent);
}

TEST_F(CodecQualityTest, TheReferenceAgainstItselfIsAtDistanceZero) {
  const auto report = Measure(RandomWindows(2, 50), {.codecs = {"f32"}, .skip_tokens = 8});
  ASSERT_TRUE(report.ok()) << report.error().message;
  const CodecQuality& f32 = report->codecs.front();
  EXPECT_EQ(f32.max_kl_nats, 0.0);
  EXPECT_EQ(f32.same_top1_share, 1.0);
  EXPECT_EQ(f32.perplexity, f32.perplexity_f32);
  EXPECT_EQ(f32.perplexity_change_percent, 0.0);
  EXPECT_EQ(f32.perplexity_change_stderr_percent, 0.0);
}

TEST_F(CodecQualityTest, FinerCodecsAreCloser) {
  const auto report = Measure(RandomWindows(2, 80), {.codecs = {"bf16", "f16"}, .skip_tokens = 16});
  ASSERT_TRUE(report.ok()) << report.error().message;
  const CodecQuality& bf16 = report->codecs[0];
  const CodecQuality& f16 = report->codecs[1];
  EXPECT_EQ(bf16.codec, "bf16");
  EXPECT_EQ(f16.codec, "f16");
  EXPECT_GT(f16.mean_kl_nats, 0.0);
  EXPECT_LT(10 * f16.mean_kl_nats, bf16.mean_kl_nats);  // 3 bits more: 64 times in theory
  EXPECT_LT(std::abs(f16.perplexity_change_percent), std::abs(bf16.perplexity_change_percent));
  EXPECT_LE(bf16.mean_kl_nats, bf16.p99_kl_nats);
  EXPECT_LE(bf16.p99_kl_nats, bf16.max_kl_nats);
  EXPECT_EQ(bf16.perplexity_f32, f16.perplexity_f32);
}

TEST_F(CodecQualityTest, BytesPerTokenAreTheLayouts) {
  const auto report = Measure(RandomWindows(1, 20), {.codecs = {"f32", "f16"}, .skip_tokens = 0});
  ASSERT_TRUE(report.ok()) << report.error().message;
  // 2 layers x 2 kv heads x 16 channels x K and V = 128 elements.
  EXPECT_EQ(report->codecs[0].kv_bytes_per_token, 512u);
  EXPECT_EQ(report->codecs[1].kv_bytes_per_token, 256u);
}

// The rule of the whole project, and what makes figures comparable.
TEST_F(CodecQualityTest, ThreadsChunksAndCompanyChangeNoBit) {
  const Windows windows = RandomWindows(2, 70);
  const auto expected = Measure(windows, {.codecs = {"bf16"}, .skip_tokens = 10});
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const std::uint32_t chunk : {1u, 7u, 16u, 1000u}) {
    for (const std::size_t threads : {1, 2}) {
      const auto report = Measure(
          windows, {.codecs = {"f16", "bf16"}, .chunk_tokens = chunk, .skip_tokens = 10}, threads);
      ASSERT_TRUE(report.ok()) << report.error().message;
      EXPECT_EQ(Figures(report->codecs[1]), Figures(expected->codecs[0]))
          << chunk << " tokens a chunk, " << threads << " threads";
    }
  }
}

TEST_F(CodecQualityTest, WindowsKnowNothingOfEachOther) {
  const Windows both = RandomWindows(2, 60);
  const QualityOptions options = {.codecs = {"bf16"}, .skip_tokens = 5};
  const auto first = Measure({both[0]}, options);
  const auto second = Measure({both[1]}, options);
  const auto together = Measure(both, options);
  ASSERT_TRUE(first.ok() && second.ok() && together.ok());
  EXPECT_EQ(together->codecs[0].max_kl_nats,
            std::max(first->codecs[0].max_kl_nats, second->codecs[0].max_kl_nats));
  EXPECT_NEAR(together->codecs[0].mean_kl_nats,
              (first->codecs[0].mean_kl_nats + second->codecs[0].mean_kl_nats) / 2, 1e-15);
}

// 40 tokens have 39 positions with a next token.
TEST_F(CodecQualityTest, AllPositionsWithANextTokenAreScoredButTheSkipped) {
  for (const std::uint32_t chunk : {1u, 16u, 64u}) {
    for (const std::uint32_t skip : {0u, 1u, 16u, 17u, 38u}) {
      const auto report = Measure(RandomWindows(3, 40),
                                  {.codecs = {"f16"}, .chunk_tokens = chunk, .skip_tokens = skip});
      ASSERT_TRUE(report.ok()) << report.error().message;
      EXPECT_EQ(report->codecs[0].positions, 3 * (39 - skip));
    }
  }
  EXPECT_EQ(done_, 3 * 39u);
  EXPECT_EQ(all_, 3 * 39u);
}

// Logits at a position are about the token after it.
TEST_F(CodecQualityTest, PerplexityIsThatOfTheTokensThatFollow) {
  constexpr std::size_t kTokens = 40;
  constexpr std::size_t kSkip = 7;
  const Windows windows = RandomWindows(1, kTokens);
  const auto cached = CachedModel::Create({*model_, kernels::KernelsFor(kernels::BestIsa()), pool_},
                                          "f32", {.max_tokens = kTokens, .chunk_tokens = kTokens});
  ASSERT_TRUE(cached.ok()) << cached.error().message;
  std::vector<float> logits(kTokens * model::kTinyVocab);
  ASSERT_TRUE((*cached)->Append(windows[0], logits).ok());
  double nll = 0;
  for (std::size_t at = kSkip; at + 1 < kTokens; ++at) {
    const auto row = std::span(logits).subspan(at * model::kTinyVocab, model::kTinyVocab);
    const auto next = static_cast<std::size_t>(windows[0][at + 1]);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    nll += std::log(sum) - static_cast<double>(row[next]);
  }
  const auto report =
      Measure(windows, {.codecs = {"f16"}, .chunk_tokens = 16, .skip_tokens = kSkip});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_NEAR(report->codecs[0].perplexity_f32, std::exp(nll / (kTokens - 1 - kSkip)), 1e-9);
}

TEST_F(CodecQualityTest, OptionsOutOfRangeAreRefusedByName) {
  const Windows windows = RandomWindows(1, 40);
  EXPECT_NE(Refusal(windows, {.codecs = {}}), "");
  EXPECT_NE(Refusal(windows, {.codecs = std::vector<std::string>(kMaxCodecs + 1, "f16")}), "");
  EXPECT_NE(Refusal(windows, {.codecs = {"f16", "f17"}, .skip_tokens = 0}).find("'f17'"),
            std::string::npos);
  EXPECT_NE(Refusal(windows, {.codecs = {"f16", "f16"}, .skip_tokens = 0}).find("twice"),
            std::string::npos);
  EXPECT_EQ(Refusal(windows, {.codecs = {"f16"}, .skip_tokens = 38}), "");
  EXPECT_NE(Refusal(windows, {.codecs = {"f16"}, .skip_tokens = 39}), "");
  EXPECT_NE(Refusal(windows, {.codecs = {"f16"}, .block_tokens = 17, .skip_tokens = 0}), "");
  EXPECT_NE(Refusal(windows, {.codecs = {"f16"}, .chunk_tokens = 0, .skip_tokens = 0}), "");
  EXPECT_NE(
      Refusal(windows, {.codecs = {"f16"}, .chunk_tokens = kMaxChunkTokens + 1, .skip_tokens = 0}),
      "");
}

TEST_F(CodecQualityTest, AWindowBeyondTheContextIsRefused) {
  EXPECT_EQ(Refusal(RandomWindows(1, 128), {.codecs = {"f16"}}), "");
  EXPECT_NE(Refusal(RandomWindows(1, 129), {.codecs = {"f16"}}).find("context of 128"),
            std::string::npos);
}

TEST_F(CodecQualityTest, MoreTokensThanAreKeptAreRefused) {
  const Windows windows(kMaxTokens / 128 + 1, std::vector<TokenId>(128, 1));
  EXPECT_NE(Refusal(windows, {.codecs = {"f16"}}).find("at most"), std::string::npos);
}

TEST_F(CodecQualityTest, LogitsThatAreNoNumbersAreAnErrorThatNamesThePosition) {
  for (const gguf::Tensor& tensor : file_.tensors()) {
    if (tensor.name != "output_norm.weight") continue;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes_.data() + (tensor.data.data() - bytes_.data()), &nan, sizeof(nan));
  }
  model_ = *model::Model::Load(file_, pool_, nullptr);
  const auto report = Measure(RandomWindows(1, 20), {.codecs = {"f16"}, .skip_tokens = 3});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(report.error().message.find("'f16': the logits at position 3"), std::string::npos);
}

// Finite, but beyond f16: the model is sound, the codec does not hold it.
TEST_F(CodecQualityTest, KeysBeyondTheCodecAreAnErrorThatNamesTheCodec) {
  gguf::GgufWriter writer = model::MakeTinyModel({.layers = 2,
                                                  .hidden = 32,
                                                  .feed_forward = 48,
                                                  .heads = 4,
                                                  .kv_heads = 2,
                                                  .head_dim = 16,
                                                  .rope_dims = 16,
                                                  .context = 128});
  writer.AddFloats("blk.1.attn_k.bias", {32}, std::vector<float>(32, 1e6f));
  bytes_ = writer.Build();
  file_ = *gguf::ModelFile::Parse(bytes_, "tiny");
  model_ = *model::Model::Load(file_, pool_, nullptr);
  for (const std::string codec : {"f16", "q8"}) {
    for (const std::uint32_t skip : {0u, 18u}) {
      const auto report =
          Measure(RandomWindows(1, 20),
                  {.codecs = {"bf16", codec}, .chunk_tokens = 8, .skip_tokens = skip});
      ASSERT_FALSE(report.ok());
      EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
      EXPECT_NE(report.error().message.find("'" + codec + "'"), std::string::npos)
          << report.error().message;
    }
  }
  EXPECT_TRUE(Measure(RandomWindows(1, 20), {.codecs = {"bf16"}, .skip_tokens = 3}).ok());
}

TEST(Summarize, FiguresFollowFromTheScores) {
  PositionScores scores;
  std::vector<double> reference;
  for (int i = 1; i <= 100; ++i) {
    scores.kl_nats.push_back(101 - i);  // order does not matter
    scores.nll_nats.push_back(i % 2 == 0 ? 1.3 : 1.1);
    reference.push_back(1.0);
  }
  scores.same_top = 75;
  const CodecQuality quality = Summarize(scores, reference);
  EXPECT_EQ(quality.positions, 100u);
  EXPECT_DOUBLE_EQ(quality.mean_kl_nats, 50.5);
  // Variance of 1 to n with n - 1: n (n + 1) / 12.
  EXPECT_DOUBLE_EQ(quality.mean_kl_stderr_nats, std::sqrt(100.0 * 101.0 / 12.0 / 100.0));
  EXPECT_EQ(quality.p99_kl_nats, 99.0);
  EXPECT_EQ(quality.max_kl_nats, 100.0);
  EXPECT_EQ(quality.same_top1_share, 0.75);
  EXPECT_DOUBLE_EQ(quality.perplexity_f32, std::exp(1.0));
  EXPECT_NEAR(quality.perplexity, std::exp(1.2), 1e-12);
  EXPECT_NEAR(quality.perplexity_change_percent, 100 * std::expm1(0.2), 1e-10);
  EXPECT_NEAR(quality.perplexity_change_stderr_percent, 100 * std::exp(0.2) * 0.1 / std::sqrt(99.0),
              1e-10);
}

TEST(Summarize, ThePercentileIsTheLeastThatNinetyNineInAHundredDoNotExceed) {
  const auto p99 = [](int count) {
    PositionScores scores;
    for (int i = 1; i <= count; ++i) scores.kl_nats.push_back(i);
    scores.nll_nats.assign(scores.kl_nats.size(), 0.0);
    return Summarize(scores, scores.nll_nats).p99_kl_nats;
  };
  EXPECT_EQ(p99(1), 1.0);
  EXPECT_EQ(p99(99), 99.0);
  EXPECT_EQ(p99(100), 99.0);
  EXPECT_EQ(p99(101), 100.0);
  EXPECT_EQ(p99(200), 198.0);
}

// A difference that is the same everywhere is certain, however the likelihoods scatter.
TEST(Summarize, ThePerplexityChangeIsPaired) {
  PositionScores scores;
  std::vector<double> reference;
  for (int i = 0; i < 50; ++i) {
    reference.push_back(i * 0.25);
    scores.nll_nats.push_back(i * 0.25 + 0.5);
    scores.kl_nats.push_back(0);
  }
  const CodecQuality quality = Summarize(scores, reference);
  EXPECT_DOUBLE_EQ(quality.perplexity_change_percent, 100 * std::expm1(0.5));
  EXPECT_EQ(quality.perplexity_change_stderr_percent, 0.0);
}

}  // namespace
}  // namespace ashlar::eval
