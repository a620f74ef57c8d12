#include "apps/flags.h"

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/byte_size.h"
#include "base/thread_pool.h"

namespace ashlar::apps {
namespace {

constexpr std::uint32_t kDefaultMaxSequences = 64;
constexpr std::uint32_t kMaxPromptLookup = 64;
constexpr std::uint32_t kDefaultStepTokens = 512;
constexpr std::uint64_t kMaxContext = std::uint64_t{1} << 30;  // tokens; no model comes near
// scripts/fetch_model.sh puts it there.
constexpr const char* kDefaultModelFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

Result<kv::Reuse> ParsePrefixCache(std::string_view text) {
  if (text == "on") return kv::Reuse::kOn;
  if (text == "off") return kv::Reuse::kOff;
  return MakeError(ErrorCode::kInvalidArgument, "--prefix-cache is '{}'; it must be on or off",
                   text);
}

Result<std::uint64_t> ParseHeadroom(std::string_view text) {
  if (text == "all") return sched::KvMemory::kWholeLength;
  auto tokens = ParseTokenCount(text);
  if (tokens.ok()) return *tokens;
  return MakeError(ErrorCode::kInvalidArgument,
                   "--headroom-tokens is '{}'; it must be a number of tokens or all", text);
}

// A double holds nanoseconds exactly up to 104 days; nobody waits for a token so long.
Result<std::int64_t> ParseItlTarget(double target_ms) {
  constexpr double kMost = 3'600'000;
  if (!(target_ms >= 0 && target_ms <= kMost)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--itl-target-ms is {}; it must be 0 (none) to {:.0f}", target_ms, kMost);
  }
  return static_cast<std::int64_t>(target_ms * 1e6);
}

Result<std::uint32_t> ParseCount32(std::string_view flag, std::string_view text) {
  ASHLAR_ASSIGN(const std::uint64_t value, ParseTokenCount(text));
  if (value > std::numeric_limits<std::uint32_t>::max()) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is {}; it must be below 2^32", flag, text);
  }
  return static_cast<std::uint32_t>(value);
}

Result<std::string> ResolveModelPath(const std::string& model) {
  if (!model.empty()) return model;
  const std::string path = DefaultModelPath();
  if (std::filesystem::exists(path)) return path;
  return MakeError(
      ErrorCode::kNotFound,
      "no --model was given and the default model is not at '{}'; `make serve` and `make run` "
      "fetch it, or give --model PATH of any GGUF file or folder of safetensors",
      path);
}

}  // namespace

void AddModelFlags(CLI::App& command, EngineFlags& flags) {
  command
      .add_option(
          "-m,--model", flags.model,
          "GGUF file, or folder of safetensors (default: the default model, fetched by make)")
      ->envname("ASHLAR_MODEL");
  command
      .add_option("--weights", flags.weights,
                  "copy: packed at load into memory of our own, on huge pages; mmap: read from the "
                  "file's pages as they are used: loads at once, shares its pages with others, "
                  "computes slower")
      ->capture_default_str();
  command.add_option("-t,--threads", flags.threads, "threads for the model; 0 = one per processor")
      ->capture_default_str();
  command.add_option("--isa", flags.isa, "instruction set: auto, or one that runs here by name")
      ->envname("ASHLAR_ISA")
      ->capture_default_str();
}

void AddEngineFlags(CLI::App& command, EngineFlags& flags) {
  AddModelFlags(command, flags);
  command
      .add_option("--activations", flags.activations,
                  "what quantised weights are multiplied with: int8 (fast: activations rounded to "
                  "8 bits, as other engines do) or f32 (exact)")
      ->envname("ASHLAR_ACTIVATIONS")
      ->capture_default_str();
  command
      .add_option(
          "--kv-codec", flags.kv_codec,
          "how keys and values are stored: a preset (exact, q8, balanced, small-model, q4), "
          "a codec (f16, hq6, ...), or each by itself: k=hq8,v=hq4,edge=2@hq8")
      ->capture_default_str();
  command
      .add_option("--kv-memory", flags.kv_memory, "hard cap of the KV cache, e.g. 512MiB or 4GiB")
      ->capture_default_str();
  command
      .add_option("--block-tokens", flags.block_tokens, "tokens in a block: 16, 32, 64, 128 or 256")
      ->capture_default_str();
  command
      .add_option("--prefix-cache", flags.prefix_cache,
                  "on: prompts are served from what earlier ones left in the cache; off")
      ->capture_default_str();
  command
      .add_option("--replacement", flags.replacement,
                  "which idle block leaves first: lru, fifo, lfu, slru, s3fifo, sieve, cost-aware")
      ->capture_default_str();
  command
      .add_option("--prefill-chunk", flags.prefill_chunk, "prompt tokens of one sequence in a step")
      ->capture_default_str();
  command.add_option("--max-step-tokens", flags.max_step_tokens,
                     fmt::format("tokens of all sequences in a step (default: {}, or the chunk)",
                                 kDefaultStepTokens));
  command.add_option("--max-sequences", flags.max_sequences,
                     fmt::format("sequences that run at once (default: {})", kDefaultMaxSequences));
  command
      .add_option("--itl-target-ms", flags.itl_target_ms,
                  "while answers are generated, prompts join a step only as far as it lasts no "
                  "longer; 0 = no target")
      ->capture_default_str();
  command
      .add_option("--headroom-tokens", flags.headroom_tokens,
                  "memory a sequence is promised when it starts, beyond its prompt; what it needs "
                  "after that it may have to wait for. all = the whole length: nothing that runs "
                  "ever waits for memory")
      ->capture_default_str();
  command
      .add_option(
          "--prompt-lookup", flags.prompt_lookup,
          "guess up to so many tokens ahead where a text repeats itself, and compute them in "
          "one step; changes no token. 0 = never")
      ->capture_default_str();
  command.add_option("--max-context", flags.max_context,
                     "tokens of prompt and completion (default: what the model was trained for)");
}

Result<std::size_t> ResolveThreads(std::uint32_t threads) {
  if (threads > ThreadPool::kMaxThreads) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--threads is {}; it must be 1 to {}, or 0 for all", threads,
                     ThreadPool::kMaxThreads);
  }
  if (threads > 0) return static_cast<std::size_t>(threads);
  const std::size_t processors = std::thread::hardware_concurrency();
  return std::clamp<std::size_t>(processors, 1, ThreadPool::kMaxThreads);
}

std::string DefaultModelPath() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const std::filesystem::path folder = cache != nullptr && *cache != '\0'
                                           ? std::filesystem::path(cache)
                                       : home != nullptr ? std::filesystem::path(home) / ".cache"
                                                         : std::filesystem::path(".cache");
  return (folder / "ashlar" / kDefaultModelFile).string();
}

Result<EngineSetup> ResolveEngineFlags(const EngineFlags& flags) {
  EngineSetup setup;
  ASHLAR_ASSIGN(setup.threads, ResolveThreads(flags.threads));
  ASHLAR_ASSIGN(setup.isa, kernels::ParseIsa(flags.isa));
  ASHLAR_ASSIGN(setup.weights, model::ParseWeightAccess(flags.weights));
  ASHLAR_ASSIGN(setup.engine.activations, model::ParseActivations(flags.activations));
  ASHLAR_ASSIGN(setup.engine.kv_codec, model::ParseKvCodecSpec(flags.kv_codec));
  ASHLAR_ASSIGN(setup.engine.kv_memory_bytes, ParseByteSize(flags.kv_memory));
  setup.engine.block_tokens = flags.block_tokens;
  setup.engine.max_events = flags.kv_events;
  ASHLAR_ASSIGN(setup.engine.reuse, ParsePrefixCache(flags.prefix_cache));
  ASHLAR_ASSIGN(setup.engine.replacement, kv::ParseReplacementKind(flags.replacement));
  ASHLAR_ASSIGN(setup.engine.limits.prefill_chunk,
                ParseCount32("--prefill-chunk", flags.prefill_chunk));
  // A chunk is at most a step: by default a longer chunk makes the step longer.
  setup.engine.limits.max_step_tokens =
      std::max(kDefaultStepTokens, setup.engine.limits.prefill_chunk);
  if (!flags.max_step_tokens.empty()) {
    ASHLAR_ASSIGN(setup.engine.limits.max_step_tokens,
                  ParseCount32("--max-step-tokens", flags.max_step_tokens));
  }
  setup.engine.limits.max_running = flags.max_sequences.value_or(
      std::min(kDefaultMaxSequences, setup.engine.limits.max_step_tokens));
  ASHLAR_ASSIGN(setup.engine.limits.itl_target_ns, ParseItlTarget(flags.itl_target_ms));
  ASHLAR_ASSIGN(setup.engine.headroom_tokens, ParseHeadroom(flags.headroom_tokens));
  if (flags.prompt_lookup > kMaxPromptLookup) {
    return MakeError(ErrorCode::kInvalidArgument, "--prompt-lookup is {}; it must be 0 to {}",
                     flags.prompt_lookup, kMaxPromptLookup);
  }
  setup.engine.max_guesses = flags.prompt_lookup;
  if (!flags.max_context.empty()) {
    ASHLAR_ASSIGN(setup.engine.max_context, ParseTokenCount(flags.max_context));
    if (setup.engine.max_context == 0 || setup.engine.max_context > kMaxContext) {
      return MakeError(ErrorCode::kInvalidArgument, "--max-context is {}; it must be 1 to {}",
                       setup.engine.max_context, kMaxContext);
    }
  }
  ASHLAR_TRY(sched::Validate(setup.engine.limits));
  ASHLAR_ASSIGN(setup.model_path, ResolveModelPath(flags.model));
  return setup;
}

}  // namespace ashlar::apps
