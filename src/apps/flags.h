// The flags that several commands share, and how they become typed options. Flags and environment
// are read in this folder only.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "kernels/isa.h"

namespace ashlar::apps {

// As given on the command line; checked by ResolveEngineFlags.
struct EngineFlags {
  std::string model;          // empty: the default model in the cache folder
  std::uint32_t threads = 0;  // 0: one per processor
  std::string isa = "auto";
  std::string weights = "copy";
  std::string activations = "int8";
  std::string kv_codec = "f16";
  std::string kv_memory = "1GiB";
  std::uint32_t block_tokens = 16;
  std::string prefix_cache = "on";
  std::string replacement = "lru";
  std::string prefill_chunk = "256";
  std::string max_step_tokens;  // empty: 512, or the chunk if that is longer
  std::optional<std::uint32_t> max_sequences;
  std::string max_context;             // empty: the model's
  double itl_target_ms = 0;            // 0: none
  std::string headroom_tokens = "64";  // or "all"
  std::uint32_t prompt_lookup = 0;     // tokens guessed ahead at the most
  std::uint64_t kv_events = 0;         // `serve` only
};

void AddEngineFlags(CLI::App& command, EngineFlags& flags);
// Of these only --model, --weights, --threads and --isa: for commands without an engine.
void AddModelFlags(CLI::App& command, EngineFlags& flags);

// The same, parsed.
struct EngineSetup {
  std::string model_path;
  model::WeightAccess weights = model::WeightAccess::kCopy;
  std::size_t threads = 1;
  kernels::Isa isa = kernels::Isa::kReference;
  engine::EngineOptions engine;
};

// Errors: kInvalidArgument naming the flag's value and what is right; kNotFound when no model was
// given and the default one is not there, with what to do.
Result<EngineSetup> ResolveEngineFlags(const EngineFlags& flags);

// 0: one per processor. Error: kInvalidArgument above ThreadPool::kMaxThreads.
Result<std::size_t> ResolveThreads(std::uint32_t threads);

// ${XDG_CACHE_HOME:-~/.cache}/ashlar/<the default model's file name>.
std::string DefaultModelPath();

}  // namespace ashlar::apps
