// A KV cache managed without any model: users who share a system prompt, on a model with full and
// sliding-window layers. Build it with the project, or against an installed ashlar (README.md).
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "ashlar/kv_cache.h"

using namespace ashlar::cache;  // NOLINT(google-build-using-namespace): an example, read as prose

int main() {
  const Layout layout{.groups = {{.name = "full",
                                  .lanes = LanesOf({.first = 0, .count = 4}, 2),
                                  .key_dim = 64,
                                  .value_dim = 64},
                                 {.name = "sliding",
                                  .lanes = LanesOf({.first = 4, .count = 20}, 2),
                                  .key_dim = 64,
                                  .value_dim = 64,
                                  .window = 256}}};
  Expected<Cache> cache =
      Cache::Create(layout, {.memory_bytes = 64 << 20, .storage = Storage::kDecisionsOnly});
  if (!cache) return std::fprintf(stderr, "%s\n", cache.error().message.c_str()), 1;

  std::vector<TokenId> system(512);
  std::iota(system.begin(), system.end(), 1000);
  std::printf("%-10s %7s %5s %9s  %s\n", "user", "prompt", "hit", "computed", "why not more");
  for (const char* user : {"alice", "bob", "carol", "alice", "mallory"}) {
    const Scope scope{.model = "demo",
                      .codec = cache->LayoutFingerprint(),
                      .tenant_salt = user == std::string("mallory") ? "other-tenant" : ""};
    std::vector<TokenId> prompt = system;  // then 40 tokens of the user's own
    for (TokenId i = 0; i < 40; ++i) prompt.push_back(user[0] * 100 + i);

    Expected<Admission> admission = cache->Admit(scope, prompt, {.max_tokens = 1024});
    if (!admission || !admission->sequence) return 1;
    Sequence& sequence = *admission->sequence;
    const std::uint64_t hit = sequence.hit_tokens();
    const auto rest = std::span(prompt).subspan(hit);
    for (std::size_t at = 0; at < rest.size(); at += 512) {
      const auto chunk = rest.subspan(at, std::min<std::size_t>(512, rest.size() - at));
      if (!sequence.Prepare(chunk.size())) return 1;
      cache->TakeCopies();  // an engine copies these blocks, then writes K and V of the chunk
      if (!sequence.Commit(chunk)) return 1;
    }
    std::printf("%-10s %7zu %5llu %9zu  %s\n", user, prompt.size(), (unsigned long long)hit,
                rest.size(), admission->report.Explain().c_str());
  }
  const MemoryReport memory = cache->Memory();
  for (const BlockState state : {BlockState::kOpen, BlockState::kShared, BlockState::kIdle}) {
    std::printf("%-7s %9llu bytes\n", std::string(NameOf(state)).c_str(),
                (unsigned long long)memory.BytesIn(state));
  }
  std::printf("%-7s %9llu bytes\n", "cap", (unsigned long long)memory.memory_bytes);
  return 0;
}
