// Encoding speed over a megabyte: this project's own sources (words, code), and the two texts that
// hurt, letters without an end and white space. Real vocabularies from the cache folder; those that
// are not there are reported as errors.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gguf/model_file.h"
#include "text/tokenizer.h"

namespace ashlar::text {
namespace {

constexpr std::size_t kTextBytes = 1 << 20;

const std::map<std::string, std::string> kModels = {
    {"smollm", "SmolLM2-135M-Instruct.Q4_1.gguf"},     {"gpt-2", "vocabs/ggml-vocab-gpt-2.gguf"},
    {"llama-bpe", "vocabs/ggml-vocab-llama-bpe.gguf"}, {"qwen2", "vocabs/ggml-vocab-qwen2.gguf"},
    {"llama-spm", "vocabs/ggml-vocab-llama-spm.gguf"}, {"gemma", "vocabs/gemma-3-270m-q4_k_m.gguf"},
};

std::string ModelPath(const std::string& family) {
  const char* base = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path cache =
      base != nullptr && *base != '\0'
          ? std::filesystem::path(base)
          : std::filesystem::path(home == nullptr ? "" : home) / ".cache";
  return (cache / "ashlar" / kModels.at(family)).string();
}

std::string Sources() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(ASHLAR_SOURCE_DIR "/src")) {
    const auto extension = entry.path().extension();
    if (extension == ".h" || extension == ".cc") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (std::size_t i = 0; text.size() < kTextBytes && !paths.empty(); i = (i + 1) % paths.size()) {
    std::ifstream stream(paths[i]);
    text.append(std::istreambuf_iterator<char>(stream), {});
  }
  text.resize(std::min(text.size(), kTextBytes));
  return text;
}

std::string Letters() {
  std::mt19937 random(1);
  std::string text(kTextBytes, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

std::string TextOf(const std::string& kind) {
  if (kind == "sources") return Sources();
  if (kind == "letters") return Letters();
  if (kind == "one_letter") return std::string(kTextBytes, 'a');
  return std::string(kTextBytes, ' ');
}

void Encode(benchmark::State& state, const std::string& family, const std::string& kind) {
  const auto file = gguf::ModelFile::Open(ModelPath(family));
  const auto tokenizer = file.ok() ? Tokenizer::Create(*file) : file.error();
  if (!tokenizer.ok()) {
    state.SkipWithError(tokenizer.error().message.c_str());
    return;
  }
  const std::string text = TextOf(kind);
  std::size_t tokens = 0;
  for (auto _ : state) {
    tokens = (*tokenizer)->Encode(text, {.add_special = false, .parse_special = true}).size();
    benchmark::DoNotOptimize(tokens);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

void Create(benchmark::State& state, const std::string& family) {
  const auto file = gguf::ModelFile::Open(ModelPath(family));
  if (!file.ok()) {
    state.SkipWithError(file.error().message.c_str());
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::Create(*file));
}

const bool kRegistered = [] {
  for (const auto& [family, path] : kModels) {
    benchmark::RegisterBenchmark(("create/" + family).c_str(), Create, family)
        ->Unit(benchmark::kMillisecond);
    for (const char* kind : {"sources", "letters", "one_letter", "spaces"}) {
      benchmark::RegisterBenchmark(("encode/" + family + "/" + kind).c_str(), Encode, family, kind)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace ashlar::text
