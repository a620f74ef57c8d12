#include "kv/scope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

namespace ashlar::kv {
namespace {

using namespace std::string_literals;

Scope ExampleScope() {
  return {.model_fingerprint = "sha256:5af5",
          .weights_epoch = 7,
          .codec_spec = "f16",
          .layout_version = 1,
          .tenant_salt = "nacl\0pepper"s,
          .adapter_digest = "lora-a"};
}

// Short, from few bytes (tags, zeros, a letter): so that fields often look like their neighbours.
Scope RandomScope(std::mt19937& random) {
  const auto field = [&] {
    std::string bytes(random() % 3, '\0');
    for (char& byte : bytes) byte = "\0\5\6x"[random() % 4];
    return bytes;
  };
  return {.model_fingerprint = field(),
          .weights_epoch = random() % 2,
          .codec_spec = field(),
          .layout_version = static_cast<std::uint32_t>(random() % 2),
          .tenant_salt = field(),
          .adapter_digest = field()};
}

std::string_view Take(std::string_view& bytes, std::size_t size) {
  EXPECT_GE(bytes.size(), size);
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(taken.size());
  return taken;
}

std::uint64_t IntegerOf(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  }
  return value;
}

std::string_view TakeField(std::string_view& bytes, char tag) {
  EXPECT_EQ(Take(bytes, 1), std::string_view(&tag, 1));
  return Take(bytes, IntegerOf(Take(bytes, 8)));
}

// What can be read back was not lost: the whole proof that different scopes have different bytes.
Scope ParseCanonicalBytes(std::string_view bytes) {
  EXPECT_EQ(Take(bytes, 14), "ashlar scope 1");
  Scope scope;
  scope.model_fingerprint = TakeField(bytes, 1);
  scope.weights_epoch = IntegerOf(TakeField(bytes, 2));
  scope.codec_spec = TakeField(bytes, 3);
  scope.layout_version = static_cast<std::uint32_t>(IntegerOf(TakeField(bytes, 4)));
  scope.tenant_salt = TakeField(bytes, 5);
  scope.adapter_digest = TakeField(bytes, 6);
  EXPECT_TRUE(bytes.empty());
  return scope;
}

TEST(Scope, CanonicalBytesCanBeReadBack) {
  std::mt19937 random(1);
  EXPECT_EQ(ParseCanonicalBytes(CanonicalBytes(ExampleScope())), ExampleScope());
  for (int i = 0; i < 2000; ++i) {
    const Scope scope = RandomScope(random);
    ASSERT_EQ(ParseCanonicalBytes(CanonicalBytes(scope)), scope);
  }
}

TEST(Scope, DigestsAreEqualExactlyWhenScopesAre) {
  std::mt19937 random(2);
  std::map<ScopeDigest, Scope> scopes;
  for (int i = 0; i < 5000; ++i) {
    const Scope scope = RandomScope(random);
    const auto [known, is_new] = scopes.try_emplace(DigestOf(scope), scope);
    ASSERT_EQ(known->second, scope);
  }
  EXPECT_GT(scopes.size(), 1000u);
}

TEST(Scope, BytesCannotMoveFromOneFieldToTheNext) {
  const std::string bytes = "a\0\5b"s;
  std::unordered_set<ScopeDigest> digests;
  std::size_t scopes = 0;
  for (std::size_t i = 0; i <= bytes.size(); ++i) {
    for (std::size_t j = i; j <= bytes.size(); ++j) {
      for (std::size_t k = j; k <= bytes.size(); ++k) {
        digests.insert(DigestOf({.model_fingerprint = bytes.substr(0, i),
                                 .codec_spec = bytes.substr(i, j - i),
                                 .tenant_salt = bytes.substr(j, k - j),
                                 .adapter_digest = bytes.substr(k)}));
        ++scopes;
      }
    }
  }
  EXPECT_EQ(digests.size(), scopes);
}

TEST(Scope, AnAdapterCannotImpersonateASalt) {
  EXPECT_NE(DigestOf({.tenant_salt = "x"}), DigestOf({.adapter_digest = "x"}));
  // Nor by spelling out the field it wants to be (tag 5, length 1, "x"), or its own tag.
  EXPECT_NE(DigestOf({.tenant_salt = "x"}), DigestOf({.adapter_digest = "\5\1\0\0\0\0\0\0\0x"s}));
  EXPECT_NE(DigestOf({.tenant_salt = "x\6"}),
            DigestOf({.tenant_salt = "x", .adapter_digest = "\6"}));
}

// python3, hashlib alone:
//   import hashlib, struct
//   def field(tag, value): return bytes([tag]) + struct.pack('<Q', len(value)) + value
//   def scope(model, epoch, codec, layout, salt, adapter):
//       return hashlib.sha256(b'ashlar scope 1' + field(1, model) + field(2, struct.pack('<Q',
//       epoch))
//           + field(3, codec) + field(4, struct.pack('<I', layout)) + field(5, salt)
//           + field(6, adapter)).hexdigest()
//   print(scope(b'', 0, b'', 0, b'', b''))
//   print(scope(b'sha256:5af5', 7, b'f16', 1, b'nacl\0pepper', b'lora-a'))
TEST(Scope, DigestIsTheOneOtherProcessesCompute) {
  EXPECT_EQ(DigestOf({}).ToHex(),
            "31b3560890248cffb7996f6d265aca18fe2af71831eeab8711c5120a7405365b");
  EXPECT_EQ(DigestOf(ExampleScope()).ToHex(),
            "e1f83d3b4cf98f52f790b3b39b1970ec3f432b33877b4fbe400a8cd43db0a5d6");
}

TEST(Scope, ValidateNamesTheFieldThatIsTooLongAndNotItsBytes) {
  const std::map<std::string, std::string Scope::*> fields = {
      {"model fingerprint", &Scope::model_fingerprint},
      {"codec spec", &Scope::codec_spec},
      {"tenant salt", &Scope::tenant_salt},
      {"adapter digest", &Scope::adapter_digest}};
  EXPECT_TRUE(Validate({}).ok());
  for (const auto& [name, field] : fields) {
    Scope scope;
    for (const std::size_t size : {kMaxScopeFieldBytes - 1, kMaxScopeFieldBytes}) {
      scope.*field = std::string(size, 'Z');
      EXPECT_TRUE(Validate(scope).ok());
    }
    scope.*field = std::string(kMaxScopeFieldBytes + 1, 'Z');
    const Status status = Validate(scope);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.error().message,
              name + " of the scope has 4097 bytes; at most 4096 are allowed");
  }
}

TEST(Scope, FirstDifferenceNamesTheFirstFieldThatDiffers) {
  const Scope a = ExampleScope();
  EXPECT_EQ(FirstDifference(a, a), ScopeDifference::kNone);
  Scope b = a;  // differs in more and more fields, the last first
  b.adapter_digest.clear();
  EXPECT_EQ(FirstDifference(a, b), ScopeDifference::kAdapter);
  b.tenant_salt += '\0';
  EXPECT_EQ(FirstDifference(a, b), ScopeDifference::kSalt);
  ++b.layout_version;
  EXPECT_EQ(FirstDifference(a, b), ScopeDifference::kLayout);
  b.codec_spec = "bf16";
  EXPECT_EQ(FirstDifference(a, b), ScopeDifference::kCodec);
  ++b.weights_epoch;
  EXPECT_EQ(FirstDifference(a, b), ScopeDifference::kEpoch);
  b.model_fingerprint = "sha256:0";
  EXPECT_EQ(FirstDifference(a, b), ScopeDifference::kModel);
  EXPECT_EQ(FirstDifference(b, a), ScopeDifference::kModel);
  EXPECT_EQ(NameOf(FirstDifference(a, b)), "model fingerprint");
}

TEST(Scope, FirstDifferenceIsNoneExactlyWhenDigestsAreEqual) {
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    const Scope a = RandomScope(random);
    Scope b = a;
    if (i % 2 == 0) b = RandomScope(random);
    ASSERT_EQ(FirstDifference(a, b) == ScopeDifference::kNone, DigestOf(a) == DigestOf(b));
  }
}

}  // namespace
}  // namespace ashlar::kv
