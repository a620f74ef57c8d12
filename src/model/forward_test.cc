#include "model/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gguf/model_file.h"
#include "kernels/block_format.h"
#include "kv/cache.h"
#include "model/kv_layout.h"
#include "model/testing/tiny_model.h"

namespace ashlar::model {
namespace {

using Logits = std::vector<float>;

// One tiny model in memory, with everything needed to run it.
class Fixture {
 public:
  explicit Fixture(const TinyModelOptions& options, WeightAccess access = WeightAccess::kCopy)
      : bytes_(MakeTinyModel(options).Build()),
        file_(std::make_unique<gguf::ModelFile>(*gguf::ModelFile::Parse(bytes_, "tiny"))) {
    ThreadPool pool(1);
    auto model = Model::Load(*file_, pool, nullptr, 0, access);
    EXPECT_TRUE(model.ok()) << model.error().message;
    model_ = *std::move(model);
  }
  const Model& model() const { return *model_; }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<gguf::ModelFile> file_;
  std::unique_ptr<const Model> model_;
};

// How a computation is carried out; nothing here may change a bit of the result.
struct Recipe {
  std::size_t threads = 1;
  std::uint32_t block_tokens = 16;
  std::string codec = "f32";
  std::size_t max_tokens = 1024;
  kernels::Isa isa = kernels::BestIsa();
  Activations activations = Activations::kF32;
  const kernels::KernelSet* kernels = nullptr;  // instead of those of `isa`
};

class Machine {
 public:
  Machine(const Model& model, const Recipe& recipe)
      : pool_(recipe.threads),
        cache_(*kv::KvCache::Create(
            *KvLayoutOf(model.config(), *ParseKvCodecSpec(recipe.codec), recipe.block_tokens),
            {.memory_bytes = 64 << 20}, clock_)),
        forward_(model, cache_->layout(),
                 recipe.kernels != nullptr ? *recipe.kernels : kernels::KernelsFor(recipe.isa),
                 pool_, recipe.max_tokens, recipe.activations) {}

  // A sequence for `tokens` tokens that shares nothing.
  kv::Sequence NewSequence(std::span<const TokenId> tokens) {
    const kv::Scope scope;
    const kv::ScopeDigest digest = kv::DigestOf(scope);
    kv::Admission admission = cache_->Admit(
        {.scope = scope, .digest = digest, .tokens = tokens},
        {.max_tokens = tokens.size(), .chunk = tokens.size(), .reuse = kv::Reuse::kOff});
    return *std::move(admission.sequence);
  }

  struct Part {
    kv::Sequence* sequence;
    std::span<const TokenId> tokens;
    LogitRows logits = LogitRows::kAll;
  };
  // One step; appends the logits of the tokens asked for to out[part].
  void Step(std::span<const Part> parts, std::vector<std::vector<Logits>>& out) {
    std::vector<Chunk> chunks;
    for (const Part& part : parts) ASSERT_TRUE(part.sequence->Prepare(part.tokens.size()));
    std::vector<std::vector<GroupBlocks>> groups(parts.size());
    for (const Part& part : parts) {
      std::vector<GroupBlocks>& blocks = groups[chunks.size()];
      for (std::uint32_t g = 0; g < cache_->layout().groups().size(); ++g) {
        blocks.push_back({part.sequence->addresses(g), part.sequence->OpenRing(g)});
      }
      chunks.push_back({.tokens = part.tokens,
                        .position = part.sequence->size(),
                        .groups = blocks,
                        .logits = part.logits});
    }
    forward_.Run(chunks, [&](std::size_t chunk, std::size_t, std::span<const float> logits) {
      out[chunk].emplace_back(logits.begin(), logits.end());
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ASSERT_FALSE(forward_.IsRefused(i));
      parts[i].sequence->Commit(parts[i].tokens);
    }
  }

  // A tree of tokens after a text: their logits, which nothing is committed of.
  std::vector<Logits> RunTree(std::span<const TokenId> text, std::span<const TokenId> tokens,
                              std::span<const std::int32_t> parents) {
    const kv::Scope scope;
    const kv::ScopeDigest digest = kv::DigestOf(scope);
    kv::Sequence sequence = *cache_
                                 ->Admit({.scope = scope, .digest = digest, .tokens = text},
                                         {.max_tokens = text.size() + tokens.size(),
                                          .chunk = text.size() + tokens.size(),
                                          .max_rollback = tokens.size(),
                                          .reuse = kv::Reuse::kOff})
                                 .sequence;
    std::vector<std::vector<Logits>> out(1);
    const Part part = {&sequence, text};
    Step({&part, 1}, out);
    std::vector<Logits> logits;
    EXPECT_TRUE(sequence.Prepare(tokens.size()));
    std::vector<GroupBlocks> blocks;
    for (std::uint32_t g = 0; g < cache_->layout().groups().size(); ++g) {
      blocks.push_back({sequence.addresses(g), sequence.OpenRing(g)});
    }
    const Chunk chunk = {.tokens = tokens,
                         .position = sequence.size(),
                         .groups = blocks,
                         .logits = LogitRows::kAll,
                         .parents = parents};
    forward_.Run({&chunk, 1}, [&](std::size_t, std::size_t, std::span<const float> row) {
      logits.emplace_back(row.begin(), row.end());
    });
    return logits;
  }

  // The logits of all tokens of one sequence, computed alone, `chunk` tokens a step.
  std::vector<Logits> RunAlone(std::span<const TokenId> tokens, std::size_t chunk) {
    kv::Sequence sequence = NewSequence(tokens);
    std::vector<std::vector<Logits>> out(1);
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const Part part = {&sequence, tokens.subspan(at, std::min(chunk, tokens.size() - at))};
      Step({&part, 1}, out);
    }
    return out[0];
  }

 private:
  ThreadPool pool_;
  ManualClock clock_;
  std::unique_ptr<kv::KvCache> cache_;
  ForwardPass forward_;
};

std::vector<TokenId> RandomTokens(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % kTinyVocab);
  return tokens;
}

class EveryTinyModel : public testing::TestWithParam<NamedTinyModel> {};

// Principle 2 for each architecture option: chunking, threads, block size and ISA change no bit.
TEST_P(EveryTinyModel, HowItIsComputedChangesNoBit) {
  const Fixture fixture(GetParam().options);
  const std::vector<TokenId> tokens = RandomTokens(70, 3);
  const std::vector<Logits> expected = Machine(fixture.model(), {}).RunAlone(tokens, tokens.size());
  ASSERT_EQ(expected.size(), tokens.size());
  for (const float logit : expected.back()) ASSERT_TRUE(std::isfinite(logit));
  EXPECT_EQ(Machine(fixture.model(), {}).RunAlone(tokens, 1), expected);
  EXPECT_EQ(Machine(fixture.model(), {.threads = 2}).RunAlone(tokens, 7), expected);
  EXPECT_EQ(Machine(fixture.model(), {.threads = 3, .block_tokens = 64}).RunAlone(tokens, 32),
            expected);
  const Fixture mapped(GetParam().options, WeightAccess::kMmap);
  EXPECT_EQ(Machine(mapped.model(), {}).RunAlone(tokens, 70), expected);
  EXPECT_EQ(Machine(mapped.model(), {.threads = 3}).RunAlone(tokens, 1), expected);
  // Fewer tokens: the reference kernels are slow.
  const std::vector<Logits> first(expected.begin(), expected.begin() + 5);
  for (const kernels::Isa isa : kernels::RunnableIsas()) {
    EXPECT_EQ(Machine(fixture.model(), {.isa = isa}).RunAlone(std::span(tokens).first(5), 4), first)
        << kernels::NameOf(isa);
  }
}

// The same of products with codes; families whose rows become codes in every way there is, and a
// format of each kind, stand for all.
TEST(Forward, WithCodesHowItIsComputedChangesNoBit) {
  for (const NamedTinyModel& named : AllTinyModels()) {
    const bool is_quantised = kernels::IsQuantised(named.options.dtype);
    const bool has_ways = named.options.experts.count > 0 || named.options.latent.kv_rank > 0;
    if (!is_quantised && !has_ways) continue;
    TinyModelOptions options = named.options;
    if (!is_quantised) options.dtype = DType::kQ4_1;
    const Fixture fixture(options);
    const std::vector<TokenId> tokens = RandomTokens(37, 3);
    const auto run = [&](Recipe recipe, std::size_t count, std::size_t chunk) {
      recipe.activations = Activations::kInt8;
      return Machine(fixture.model(), recipe).RunAlone(std::span(tokens).first(count), chunk);
    };
    const std::vector<Logits> expected = run({}, 37, 37);
    EXPECT_NE(expected, Machine(fixture.model(), {}).RunAlone(tokens, 37)) << named.name;
    EXPECT_EQ(run({}, 37, 1), expected) << named.name;
    EXPECT_EQ(run({.threads = 3}, 37, 7), expected) << named.name;
    const Fixture mapped(options, WeightAccess::kMmap);
    EXPECT_EQ(Machine(mapped.model(), {.threads = 2, .activations = Activations::kInt8})
                  .RunAlone(tokens, 12),
              expected)
        << named.name;
    const std::vector<Logits> first(expected.begin(), expected.begin() + 3);
    for (const kernels::Isa isa : kernels::RunnableIsas()) {
      EXPECT_EQ(run({.isa = isa}, 3, 3), first) << named.name << kernels::NameOf(isa);
    }
  }
}

// Codes have 7 bits: a product is off by some thousandths, and so are logits after two layers.
TEST(Forward, CodesStayCloseToExactProducts) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ6_K, DType::kQ8_0}) {
    const Fixture fixture({.dtype = dtype});
    const std::vector<TokenId> tokens = RandomTokens(24, 9);
    const Logits exact = Machine(fixture.model(), {}).RunAlone(tokens, 24).back();
    const Logits rounded =
        Machine(fixture.model(), {.activations = Activations::kInt8}).RunAlone(tokens, 24).back();
    const auto [least, greatest] = std::minmax_element(exact.begin(), exact.end());
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_NEAR(rounded[i], exact[i], 0.02f * (*greatest - *least)) << NameOf(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Options, EveryTinyModel, testing::ValuesIn(AllTinyModels()),
                         [](const auto& param_info) {
                           std::string name(param_info.param.name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class EveryCodec : public testing::TestWithParam<std::string> {};

// Long enough for three softmax segments, so that merges and split decode are on the path.
TEST_P(EveryCodec, LongSequencesAreTheSameInChunksOnThreadsAndInBatches) {
  const Fixture fixture(TinyModelOptions{.hidden = 64,
                                         .feed_forward = 96,
                                         .heads = 6,
                                         .kv_heads = 3,
                                         .head_dim = 16,
                                         .rope_dims = 16});
  const std::vector<TokenId> tokens = RandomTokens(600, 5);
  const Recipe base = {.codec = GetParam()};
  const auto expected = Machine(fixture.model(), base).RunAlone(tokens, tokens.size());
  for (const auto& [chunk, threads] : {std::pair{1u, 2u}, {7u, 1u}, {32u, 2u}, {1000u, 2u}}) {
    Recipe recipe = base;
    recipe.threads = threads;
    EXPECT_EQ(Machine(fixture.model(), recipe).RunAlone(tokens, chunk), expected)
        << chunk << " tokens a step, " << threads << " threads";
  }

  // Eight sequences of different lengths in one batch: prefills beside decodes.
  constexpr std::size_t kBatch = 8;
  Recipe recipe = base;
  recipe.threads = 2;
  Machine machine(fixture.model(), recipe);
  std::vector<std::vector<TokenId>> sequences(kBatch);
  std::vector<kv::Sequence> tables;
  for (std::size_t i = 0; i < kBatch; ++i) {
    sequences[i] = i == 3 ? tokens : RandomTokens(30 + 71 * i, static_cast<std::uint32_t>(100 + i));
    tables.push_back(machine.NewSequence(sequences[i]));
  }
  std::vector<std::vector<Logits>> results(kBatch);
  std::mt19937 random(17);
  for (;;) {
    std::vector<Machine::Part> parts;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::size_t rest = sequences[i].size() - tables[i].size();
      if (rest == 0) continue;
      const std::size_t count =
          std::min<std::size_t>(rest, random() % 2 == 0 ? 1 : 1 + random() % 90);
      parts.push_back({&tables[i], std::span(sequences[i]).subspan(tables[i].size(), count)});
      who.push_back(i);
    }
    if (parts.empty()) break;
    std::vector<std::vector<Logits>> step(parts.size());
    machine.Step(parts, step);
    for (std::size_t i = 0; i < who.size(); ++i) {
      std::move(step[i].begin(), step[i].end(), std::back_inserter(results[who[i]]));
    }
  }
  EXPECT_EQ(results[3], expected);
  for (std::size_t i = 0; i < kBatch; ++i) {
    EXPECT_EQ(results[i],
              Machine(fixture.model(), base).RunAlone(sequences[i], sequences[i].size()));
  }
}

// Speculative verification: the logits after each token of a tree are those of a plain text along
// its path, also where the path fills a block.
TEST_P(EveryCodec, LogitsOfATreeAreThoseOfThePathToEachToken) {
  const Fixture fixture(TinyModelOptions{});
  constexpr std::size_t kTokens = 40;
  std::mt19937 random(23);
  std::vector<std::int32_t> parents;
  parents.reserve(kTokens);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(kTokens); ++i) {
    parents.push_back(random() % 4 > 0 ? i - 1 : static_cast<std::int32_t>(random() % (i + 1)) - 1);
  }
  const std::vector<TokenId> tree = RandomTokens(kTokens, 8);
  for (const std::size_t length : {32, 43}) {
    const std::vector<TokenId> text = RandomTokens(length, 7);
    Machine machine(fixture.model(), {.threads = 2, .codec = GetParam()});
    const std::vector<Logits> got = machine.RunTree(text, tree, parents);
    ASSERT_EQ(got.size(), kTokens);
    for (std::size_t i = 0; i < kTokens; i += 1 + i / 8) {
      std::vector<TokenId> path;
      for (auto at = static_cast<std::int32_t>(i); at >= 0; at = parents[at]) {
        path.insert(path.begin(), tree[at]);
      }
      path.insert(path.begin(), text.begin(), text.end());
      ASSERT_EQ(got[i], machine.RunAlone(path, path.size()).back()) << length << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec,
                         testing::Values("f32", "f16", "bf16", "fp8", "k=q8,v=q8", "hq6",
                                         "k=hq5,v=q4", "kc4", "k=f16,v=kc2", "k=hlm4,v=lm3",
                                         "k=hq8,v=bf16", "k=hq4,v=hq4,edge=1@hq8"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           for (char& c : name) {
                             if (c == '=' || c == ',' || c == '@') c = '_';
                           }
                           return name;
                         });

TEST(Forward, CodecsDifferAndStayClose) {
  const Fixture fixture(TinyModelOptions{});
  const std::vector<TokenId> tokens = RandomTokens(40, 9);
  const Logits exact = Machine(fixture.model(), {.codec = "f32"}).RunAlone(tokens, 40).back();
  for (const auto& [codec, tolerance] : std::map<std::string, float>{{"f16", 0.02f},
                                                                     {"bf16", 0.2f},
                                                                     {"k=q8,v=q8", 0.2f},
                                                                     {"hq6", 0.6f},
                                                                     {"k=q4,v=q4", 2.0f}}) {
    const Logits rounded = Machine(fixture.model(), {.codec = codec}).RunAlone(tokens, 40).back();
    EXPECT_NE(rounded, exact);  // a codec that changes nothing would not be stored
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(rounded[i], exact[i], tolerance);
  }
}

// Kernels that count the panels and rows of products with as many outputs as the vocabulary.
class HeadCounter {
 public:
  HeadCounter() : kernels_(kernels::KernelsFor(kernels::BestIsa())) {
    products_ = 0;
    kernels_.matmul = [](const kernels::MatmulArgs& args) {
      Count(*args.w, args.rows * (args.panel_end - args.panel_begin));
      kernels::KernelsFor(kernels::BestIsa()).matmul(args);
    };
    kernels_.matmul_codes = [](const kernels::MatmulCodesArgs& args) {
      Count(*args.w, args.rows * (args.panel_end - args.panel_begin));
      kernels::KernelsFor(kernels::BestIsa()).matmul_codes(args);
    };
  }
  const kernels::KernelSet* kernels() const { return &kernels_; }
  // Rows multiplied since the last call.
  static std::size_t TakeRows() {
    constexpr std::size_t kPanels = (kTinyVocab + 15) / 16;
    const std::size_t products = products_.exchange(0);
    EXPECT_EQ(products % kPanels, 0u);
    return products / kPanels;
  }

 private:
  static void Count(const kernels::PackedMatrix& w, std::size_t products) {
    if (w.n == kTinyVocab) products_ += products;
  }

  static std::atomic<std::size_t> products_;
  kernels::KernelSet kernels_;
};
std::atomic<std::size_t> HeadCounter::products_ = 0;

TEST(Forward, MultipliesTheOutputMatrixWithTheRowsAskedForOnly) {
  for (const Activations activations : {Activations::kF32, Activations::kInt8}) {
    const Fixture fixture(TinyModelOptions{.dtype = DType::kQ8_0});
    const HeadCounter counter;
    Machine machine(fixture.model(),
                    {.threads = 2, .activations = activations, .kernels = counter.kernels()});
    const std::vector<TokenId> tokens = RandomTokens(70, 2);
    std::vector<kv::Sequence> sequences;
    for (int i = 0; i < 3; ++i) sequences.push_back(machine.NewSequence(tokens));
    const auto step = [&](std::initializer_list<LogitRows> rows) {
      std::vector<std::vector<Logits>> out(rows.size());
      std::vector<Machine::Part> parts;
      for (const LogitRows logits : rows) {
        kv::Sequence& sequence = sequences[parts.size()];
        parts.push_back({&sequence, std::span(tokens).subspan(sequence.size(), 35), logits});
      }
      machine.Step(parts, out);
      std::vector<std::size_t> reported;
      for (const auto& logits : out) reported.push_back(logits.size());
      return reported;
    };
    EXPECT_EQ(step({LogitRows::kNone}), (std::vector<std::size_t>{0}));
    EXPECT_EQ(counter.TakeRows(), 0u);
    EXPECT_EQ(step({LogitRows::kLast}), (std::vector<std::size_t>{1}));
    EXPECT_EQ(counter.TakeRows(), 1u);
    sequences[0] = machine.NewSequence(tokens);
    const auto reported = step({LogitRows::kLast, LogitRows::kNone, LogitRows::kAll});
    EXPECT_EQ(reported, (std::vector<std::size_t>{1, 0, 35}));
    EXPECT_EQ(counter.TakeRows(), 36u);
  }
}

TEST(Forward, LastRowOnlyGivesTheSameRowAsAll) {
  const Fixture fixture(TinyModelOptions{});
  const std::vector<TokenId> tokens = RandomTokens(20, 1);
  Machine machine(fixture.model(), {});
  const auto all = machine.RunAlone(tokens, 20);
  EXPECT_EQ(machine.RunAlone(std::span(tokens).first(10), 10).back(), all[9]);  // causal
}

}  // namespace
}  // namespace ashlar::model
