// What a plan says of a GGUF file is what an engine then does with it: bytes reserved, bytes used,
// sequences that run at once.
#include "plan/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/testing/tiny_engine.h"
#include "hf/testing/tiny_folder.h"
#include "model/testing/tiny_model.h"
#include "plan/capacity.h"
#include "plan/kv_need.h"

namespace ashlar::plan {
namespace {

constexpr std::uint64_t kChunk = 24;

// Five layers, so that the ends may have another codec than the middle.
model::TinyModelOptions FiveLayers() {
  return {.layers = 5,
          .hidden = 64,
          .feed_forward = 48,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 32,
          .rope_dims = 32,
          .context = 512};
}

class TinyFile {
 public:
  explicit TinyFile(const model::TinyModelOptions& options)
      : bytes_(model::MakeTinyModel(options).Build()),
        file_(*gguf::ModelFile::Parse(bytes_, "tiny.gguf")) {}

  const gguf::ModelFile& operator*() const { return file_; }
  Subject subject() const { return *SubjectOf(file_, "tiny.gguf"); }

 private:
  std::vector<std::byte> bytes_;
  gguf::ModelFile file_;
};

class RunningEngine {
 public:
  RunningEngine(const TinyFile& file, const std::string& codec, std::uint64_t kv_memory_bytes)
      : pool_(1),
        model_(*model::Model::Load(*file, pool_, nullptr)),
        engine_(*engine::Engine::Create(
            *model_, kernels::KernelsFor(kernels::BestIsa()), pool_, clock_,
            {.kv_codec = *model::ParseKvCodecSpec(codec),
             .kv_memory_bytes = kv_memory_bytes,
             .reuse = kv::Reuse::kOff,
             .limits = {.max_step_tokens = 512, .prefill_chunk = kChunk, .max_running = 256}})) {}

  engine::Engine* operator->() { return engine_.get(); }

  // `tokens` of a prompt and `generated` after it.
  std::shared_ptr<engine::RecordingSink> Submit(std::uint64_t tokens, std::uint64_t generated) {
    auto sink = std::make_shared<engine::RecordingSink>();
    ++requests_;
    engine_->Submit(RequestId(requests_),
                    {.prompt = std::vector<TokenId>(tokens, static_cast<TokenId>(requests_ % 200)),
                     .sampling = {.temperature = 0},
                     .max_tokens = generated},
                    sink, 0);
    return sink;
  }

 private:
  ThreadPool pool_;
  SteadyClock clock_;
  std::unique_ptr<const model::Model> model_;
  std::unique_ptr<engine::Engine> engine_;
  std::uint64_t requests_ = 0;
};

constexpr const char* kCodecs[] = {"f16", "f32",        "q8", "k=hq8,v=hq4,edge=1@hq8",
                                   "kc4", "k=bf16,v=q5"};

KvNeed NeedOf(const Subject& subject, const std::string& codec, std::uint64_t stored) {
  const kv::KvLayout layout = *LayoutOf(subject.geometry, *model::ParseKvCodecSpec(codec), 16);
  return *KvNeedOf(layout, {.context = stored, .chunk = kChunk});
}

TEST(Subject, PlannedBytesAreWhatTheEngineReservesAndUses) {
  const TinyFile file(FiveLayers());
  const Subject subject = file.subject();
  for (const std::string codec : kCodecs) {
    RunningEngine engine(file, codec, 8 << 20);
    for (const auto& [prompt, generated] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
             {1, 1}, {15, 1}, {16, 1}, {17, 1}, {10, 7}, {100, 30}, {200, 57}}) {
      // The last token's K and V are never stored.
      const std::uint64_t stored = prompt + generated - 1;
      const KvNeed need = NeedOf(subject, codec, stored);
      EXPECT_EQ(engine->info().kv_bytes_per_token, need.bytes_per_token) << codec;
      const auto sink = engine.Submit(prompt, generated);
      std::uint64_t reserved = 0;
      while (engine->Step()) {
        reserved = std::max(
            reserved, engine->stats().kv_bytes_used + engine->cache().Account().promised_bytes);
      }
      ASSERT_EQ(sink->usage.completion_tokens, generated);
      EXPECT_EQ(sink->usage.kv_bytes, need.held_bytes)
          << codec << ", " << prompt << " + " << generated;
      // A request of one step is over before anybody can look.
      if (prompt > kChunk || generated > 1) {
        EXPECT_EQ(reserved, need.bytes_per_sequence)
            << codec << ", " << prompt << " + " << generated;
      }
    }
  }
}

TEST(Subject, AsManySequencesRunAtOnceAsThePlanSays) {
  const TinyFile file(FiveLayers());
  const Subject subject = file.subject();
  constexpr std::uint64_t kPrompt = 30;
  constexpr std::uint64_t kGenerated = 40;
  for (const std::string codec : kCodecs) {
    const kv::KvLayout layout = *LayoutOf(subject.geometry, *model::ParseKvCodecSpec(codec), 16);
    for (const std::uint64_t memory : {300'000u, 1'000'000u, 1'234'567u}) {
      const std::uint64_t fits =
          SequencesThatFit(layout, memory, {.context = kPrompt + kGenerated - 1, .chunk = kChunk});
      ASSERT_GT(fits, 0u);
      ASSERT_LT(fits, 200u);
      RunningEngine engine(file, codec, memory);
      for (std::uint64_t i = 0; i < fits + 3; ++i) engine.Submit(kPrompt, kGenerated);
      std::uint64_t most = 0;
      for (int step = 0; step < 20; ++step) {
        (void)engine->Step();
        most = std::max<std::uint64_t>(most, engine->stats().running);
      }
      EXPECT_EQ(most, fits) << codec << " in " << memory;
      engine->CancelAll();
    }
  }
}

TEST(Subject, TheLongestContextIsTheEngines) {
  const TinyFile file(FiveLayers());
  const Subject subject = file.subject();
  for (const std::string codec : kCodecs) {
    const kv::KvLayout layout = *LayoutOf(subject.geometry, *model::ParseKvCodecSpec(codec), 16);
    for (const std::uint64_t memory : {200'000u, 300'000u}) {
      RunningEngine engine(file, codec, memory);
      // The engine counts the last token, which is not stored.
      EXPECT_EQ(ContextThatFits(layout, memory, {.sequences = 1, .chunk = kChunk}, 512) + 1,
                engine->info().max_context + (engine->info().max_context == 512 ? 1 : 0))
          << codec << " in " << memory;
    }
  }
}

// Two ways to the same lane groups: a file's metadata read as a config, and the engine's own
// reading of them.
TEST(Subject, EveryFamilysMetadataSayWhatItsConfigSays) {
  for (const model::NamedTinyModel& named : model::AllTinyModels()) {
    const TinyFile file(named.options);
    const Result<Subject> read = SubjectOf(*file, "tiny.gguf");
    ASSERT_TRUE(read.ok()) << named.name << ": " << read.error().message;
    const Subject& subject = *read;
    const auto config = model::ModelConfig::Read(*file);
    if (!config.ok()) continue;
    EXPECT_EQ(GeometryOf(*file, "tiny.gguf")->layers, model::LayersKvOf(*config)) << named.name;
    const Geometry& g = subject.geometry;
    EXPECT_EQ(g.layers.size(), config->layers) << named.name;
    EXPECT_EQ(g.heads, config->heads) << named.name;
    EXPECT_EQ(config->latent.has_value(), g.latent.has_value()) << named.name;
    if (!g.latent) {
      EXPECT_EQ(g.head_dim, config->head_dim) << named.name;
    }
    EXPECT_EQ(config->experts.has_value(), g.experts.has_value()) << named.name;
    EXPECT_EQ(g.hidden, config->hidden) << named.name;
    EXPECT_EQ(g.vocab, config->vocab) << named.name;
    EXPECT_EQ(g.context, config->context) << named.name;
    std::uint64_t parameters = 0;
    std::uint64_t bytes = 0;
    for (const gguf::Tensor& tensor : (*file).tensors()) {
      parameters += tensor.elements();
      bytes += tensor.data.size();
    }
    EXPECT_EQ(subject.file_weights->parameters, parameters);
    EXPECT_EQ(subject.file_weights->stored_bytes, bytes);
    EXPECT_TRUE(subject.config.has_value()) << named.name;
  }
}

TEST(Subject, AModelThatThisBuildDoesNotRunIsPlannedFromItsMetadata) {
  gguf::GgufWriter writer;
  writer.Set("general.architecture", "gemma3");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::uint32_t>>{{"block_count", 12},
                                                          {"embedding_length", 640},
                                                          {"feed_forward_length", 2048},
                                                          {"attention.head_count", 4},
                                                          {"attention.head_count_kv", 1},
                                                          {"attention.key_length", 256},
                                                          {"attention.value_length", 256},
                                                          {"attention.sliding_window", 512},
                                                          {"context_length", 32768},
                                                          {"vocab_size", 1000}}) {
    writer.SetUnsigned("gemma3." + key, value);
  }
  const std::vector<std::byte> bytes = writer.Build();
  const gguf::ModelFile file = *gguf::ModelFile::Parse(bytes, "gemma.gguf");
  const Result<Subject> subject = SubjectOf(file, "gemma.gguf");
  ASSERT_TRUE(subject.ok()) << subject.error().message;
  EXPECT_EQ(subject->geometry.layers[0].window, 512u);
  EXPECT_EQ(subject->geometry.layers[5].window, 0u);
  EXPECT_EQ(subject->geometry.layers[0].kv_heads, 1u);
}

class FindSubjectTest : public ::testing::Test {
 protected:
  FindSubjectTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("ashlar-subject-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_ / "my-model");
  }
  ~FindSubjectTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  static std::string ErrorOf(const std::string& model) {
    const auto subject = FindSubject(model, Registry::BuiltIn());
    return subject.ok() ? "" : subject.error().message;
  }

  std::filesystem::path folder_;
};

constexpr std::string_view kConfig =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 128,
        "num_attention_heads": 4, "vocab_size": 100})";

TEST_F(FindSubjectTest, FilesFoldersAndNamesAreTold) {
  Write("my-model/config.json", kConfig);
  const auto in_folder = FindSubject((folder_ / "my-model").string(), Registry::BuiltIn());
  ASSERT_TRUE(in_folder.ok()) << in_folder.error().message;
  EXPECT_EQ(in_folder->geometry.name, "my-model");
  EXPECT_EQ(in_folder->source, "config");
  EXPECT_EQ(FindSubject(Write("other.json", kConfig), Registry::BuiltIn())->geometry.name, "other");
  EXPECT_EQ(FindSubject("llama-3-8b", Registry::BuiltIn())->source, "registry");
}

TEST_F(FindSubjectTest, WhatIsNoModelIsNamed) {
  EXPECT_NE(ErrorOf(Write("letter.gguf", "Dear reader")).find("letter.gguf"), std::string::npos);
  EXPECT_NE(ErrorOf(Write("empty.json", "")).find("neither"), std::string::npos);
  EXPECT_NE(ErrorOf(Write("half.json", "{\"num_hid")).find("half.json"), std::string::npos);
  EXPECT_NE(ErrorOf((folder_ / "missing.gguf").string()).find("missing.gguf"), std::string::npos);
  EXPECT_NE(ErrorOf((folder_ / "my-model").string()).find("config.json"), std::string::npos);
  EXPECT_NE(ErrorOf("no-such-model").find("--list"), std::string::npos);
}

// The same bytes as for the GGUF file of the same model; without a tokenizer, for none is needed.
TEST_F(FindSubjectTest, AFolderOfSafetensorsIsPlannedAsItsGguf) {
  const model::TinyModelOptions options = *model::FindTinyModel("gemma3");
  const std::string folder = (folder_ / "my-model").string();
  ASSERT_TRUE(hf::WriteTinyFolder(hf::TinyFolderOf(options), options, folder).ok());
  std::filesystem::remove(folder_ / "my-model" / "tokenizer.json");
  const auto subject = FindSubject(folder, Registry::BuiltIn());
  ASSERT_TRUE(subject.ok()) << subject.error().message;
  const std::vector<std::byte> bytes = model::MakeTinyModel(options).Build();
  const Subject wanted = *SubjectOf(*gguf::ModelFile::Parse(bytes, "tiny.gguf"), "tiny.gguf");
  EXPECT_EQ(subject->source, "safetensors");
  EXPECT_EQ(subject->geometry.name, "my-model");
  ASSERT_EQ(subject->geometry.layers.size(), wanted.geometry.layers.size());
  for (std::size_t i = 0; i < wanted.geometry.layers.size(); ++i) {
    EXPECT_EQ(subject->geometry.layers[i].window, wanted.geometry.layers[i].window);
    EXPECT_EQ(subject->geometry.layers[i].kv_heads, wanted.geometry.layers[i].kv_heads);
    EXPECT_EQ(subject->geometry.layers[i].key_dim, wanted.geometry.layers[i].key_dim);
  }
  EXPECT_EQ(subject->file_weights->loaded_bytes, wanted.file_weights->loaded_bytes);
  EXPECT_EQ(subject->file_weights->parameters, wanted.file_weights->parameters);
}

// Weights that this build does not read: the config is enough.
TEST_F(FindSubjectTest, AFolderThatDoesNotRunIsPlannedFromItsConfig) {
  const model::TinyModelOptions options = {.layers = 1};
  hf::TinyFolder tiny = hf::TinyFolderOf(options);
  tiny.config["model_type"] = "granite";
  const std::string folder = (folder_ / "my-model").string();
  ASSERT_TRUE(hf::WriteTinyFolder(tiny, options, folder).ok());
  const auto subject = FindSubject(folder, Registry::BuiltIn());
  ASSERT_TRUE(subject.ok()) << subject.error().message;
  EXPECT_EQ(subject->source, "config");
  EXPECT_THAT(subject->geometry.notes.back(), testing::HasSubstr("'granite'"));
}

}  // namespace
}  // namespace ashlar::plan
