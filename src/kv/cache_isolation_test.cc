// What must match besides tokens; and what a hash may never decide.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::CacheScene;
using testing::First;
using testing::Join;
using testing::LayoutNamed;
using testing::RoomFor;
using testing::Text;
using testing::Tokens;

struct Other {
  std::string name;
  Scope scope;
  MissReason reason;
};

Scope Plain() { return {.model_fingerprint = "model", .codec_spec = "f16"}; }

std::vector<Other> OthersThanPlain() {
  std::vector<Other> others;
  const auto add = [&](std::string name, MissReason reason, auto change) {
    Scope scope = Plain();
    change(scope);
    others.push_back({std::move(name), std::move(scope), reason});
  };
  add("model", MissReason::kOtherModel, [](Scope& s) { s.model_fingerprint = "model2"; });
  add("epoch", MissReason::kOtherEpoch, [](Scope& s) { s.weights_epoch = 1; });
  add("codec", MissReason::kOtherCodec, [](Scope& s) { s.codec_spec = "bf16"; });
  add("layout", MissReason::kOtherLayout, [](Scope& s) { s.layout_version = 1; });
  add("salt", MissReason::kOtherSalt, [](Scope& s) { s.tenant_salt = "salt"; });
  add("adapter", MissReason::kOtherAdapter, [](Scope& s) { s.adapter_digest = "lora"; });
  return others;
}

TEST(CacheIsolation, OtherScopesShareNothingAndTheReasonNamesTheFirstDifference) {
  for (const Other& other : OthersThanPlain()) {
    CacheScene scene(LayoutNamed("full"), RoomFor(32));
    const Tokens text = Text(1, 50);
    scene.Serve(text);
    scene.SetScope(other.scope);
    const LookupReport report = scene.Probe(text);
    EXPECT_EQ(report.hit_tokens, 0u) << other.name;
    EXPECT_EQ(report.reason, other.reason) << other.name << ": " << report.Explain();
    EXPECT_EQ(scene.Serve(text), 0u) << other.name;  // Check()s that its own marks are read
    EXPECT_EQ(scene.Serve(text), 49u) << other.name;
    scene.SetScope(Plain());
    EXPECT_EQ(scene.Serve(text), 49u) << other.name;
  }
}

TEST(CacheIsolation, FirstOfSeveralDifferencesIsNamed) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  scene.Serve(Text(1, 50));
  Scope scope = Plain();
  scope.tenant_salt = "salt";
  scope.weights_epoch = 3;
  scene.SetScope(scope);
  EXPECT_EQ(scene.Probe(Text(1, 50)).reason, MissReason::kOtherEpoch);
}

TEST(CacheIsolation, ScopesAreNotSearchedForPromptsOfLessThanABlock) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  scene.Serve(Text(1, 12));
  scene.SetScope(OthersThanPlain()[4].scope);
  EXPECT_EQ(scene.Probe(Text(1, 12)).hit_tokens, 0u);
  EXPECT_EQ(scene.Probe(Text(1, 12)).reason, MissReason::kNeverSeen);
}

TEST(CacheIsolation, OtherScopesDoNotWaitForEachOther) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  Sequence plain = scene.Start(Text(1, 50));
  scene.SetScope(OthersThanPlain()[4].scope);
  EXPECT_EQ(scene.Admit(Text(1, 50)).status, AdmitStatus::kAdmitted);
}

TEST(CacheIsolation, SaltAndAdapterOfEqualBytesAreDifferentScopes) {
  Scope salted = Plain();
  salted.tenant_salt = "x";
  Scope adapted = Plain();
  adapted.adapter_digest = "x";
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  scene.SetScope(salted);
  scene.Serve(Text(1, 40));
  scene.SetScope(adapted);
  EXPECT_EQ(scene.Serve(Text(1, 40)), 0u);
}

// The worst hash there is: all prefixes of all scopes have the same.
std::uint64_t Constant(std::uint64_t, std::span<const TokenId>) { return 42; }

TEST(CacheIsolation, EqualHashesOfOtherTokensMiss) {
  CacheOptions options = RoomFor(64);
  options.hasher = Constant;
  CacheScene scene(LayoutNamed("full"), options);
  const Tokens text = Text(1, 48);
  scene.Serve(text);
  EXPECT_EQ(scene.Probe(Text(2, 48)).hit_tokens, 0u);
  Tokens last = text;  // differs in one token of its second block
  last[31] ^= 1;
  EXPECT_EQ(scene.Serve(last), 31u);
  EXPECT_EQ(scene.Serve(text), 47u);
  EXPECT_EQ(scene.Serve(last), 47u);
}

TEST(CacheIsolation, EqualHashesAfterAnotherPrefixMiss) {
  CacheOptions options = RoomFor(64);
  options.hasher = Constant;
  CacheScene scene(LayoutNamed("full"), options);
  const Tokens a = Text(1, 16);
  const Tokens b = Text(2, 16);
  const Tokens same = Text(3, 33);
  scene.Serve(Join(a, same));
  scene.Serve(b);
  EXPECT_EQ(scene.Serve(Join(b, same)), 16u);  // the same tokens, after other ones
  EXPECT_EQ(scene.Serve(same), 0u);            // or after none
  EXPECT_EQ(scene.Serve(Join(a, same)), 48u);
}

TEST(CacheIsolation, EqualHashesOfOtherScopesMiss) {
  CacheOptions options = RoomFor(64);
  options.hasher = Constant;
  CacheScene scene(LayoutNamed("full"), options);
  scene.Serve(Text(1, 48));
  for (const Other& other : OthersThanPlain()) {
    scene.SetScope(other.scope);
    EXPECT_EQ(scene.Serve(Text(1, 48)), 0u) << other.name;
  }
}

// Scopes are cheap to make (a salt is a request's field): those of others fill the index, and not
// at the expense of a floor.
TEST(CacheIsolation, ManyScopesOfOthersLeaveAFloorAlone) {
  const KvLayout layout = *KvLayout::Create(LayoutNamed("full"));
  constexpr std::uint64_t kBlocks =
      5000;  // more than scopes with a block each that the index holds
  const std::uint64_t block_bytes = layout.group(0).block_bytes();
  const ManualClock clock;
  const auto cache =
      *KvCache::Create(layout,
                       {.memory_bytes = kBlocks * block_bytes,
                        .accounts = {{.name = "guarded", .floor_bytes = 4 * block_bytes}}},
                       clock);
  const std::vector<TokenId> prompt(17, 5);
  const auto store = [&](const std::string& salt, AccountId account) {
    const Scope scope{.model_fingerprint = "m", .tenant_salt = salt};
    const ScopeDigest digest = DigestOf(scope);
    Admission admission =
        cache->Admit({.scope = scope, .digest = digest, .tokens = prompt},
                     {.max_tokens = prompt.size(), .chunk = 32, .account = account});
    ASSERT_TRUE(admission.sequence->Prepare(16 - admission.sequence->size() % 16));
    admission.sequence->Commit(std::span(prompt).first(16 - admission.sequence->size() % 16));
  };
  store("guarded", AccountId(1));
  for (std::uint64_t i = 0; i < kBlocks; ++i) store(std::to_string(i), kCommonAccount);
  EXPECT_GT(cache->counters().replaced_blocks, 0u);  // the index ran full
  const Scope scope{.model_fingerprint = "m", .tenant_salt = "guarded"};
  const ScopeDigest digest = DigestOf(scope);
  EXPECT_EQ(cache->Probe({.scope = scope, .digest = digest, .tokens = prompt}).hit_tokens, 16u);
}

}  // namespace
}  // namespace ashlar::kv
