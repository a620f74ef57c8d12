#include "server/api_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ashlar::server {
namespace {

constexpr std::string_view kOne = "key-one-0123456789";
constexpr std::string_view kTwo = "key-two-0123456789";
constexpr std::string_view kThree = "key-three-0123456789";

ApiKeys Keys(std::string_view text) {
  auto keys = ApiKeys::Parse(text);
  EXPECT_TRUE(keys.ok()) << (keys.ok() ? "" : keys.error().message);
  return keys.ok() ? *std::move(keys) : ApiKeys();
}

std::string ErrorOf(std::string_view text) {
  const auto keys = ApiKeys::Parse(text);
  if (keys.ok()) {
    return {};
  }
  EXPECT_EQ(keys.error().code, ErrorCode::kInvalidArgument);
  return keys.error().message;
}

TEST(ApiKeys, LinesAreKeysOfTheOwnerOrOfTenants) {
  const ApiKeys keys = Keys(
      "# ours\nkey-one-0123456789\r\n\n  acme: key-two-0123456789  \nacme:key-three-0123456789");
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys.tenants(), 2u);
  ASSERT_NE(keys.Find(kOne), nullptr);
  EXPECT_EQ(keys.Find(kOne)->name, "");
  EXPECT_TRUE(keys.Find(kOne)->is_admin);
  ASSERT_NE(keys.Find(kTwo), nullptr);
  EXPECT_EQ(keys.Find(kTwo)->name, "acme");
  EXPECT_FALSE(keys.Find(kTwo)->is_admin);
  EXPECT_EQ(keys.Find(kTwo), keys.Find(kThree));
}

TEST(ApiKeys, FindsNoKeyButItself) {
  const ApiKeys keys = Keys("key-one-0123456789");
  EXPECT_EQ(keys.Find(""), nullptr);
  EXPECT_EQ(keys.Find("key-one-012345678"), nullptr);
  EXPECT_EQ(keys.Find("key-one-0123456789x"), nullptr);
  EXPECT_EQ(keys.Find("KEY-ONE-0123456789"), nullptr);
}

TEST(ApiKeys, JsonGivesTenantsTheirQuotas) {
  const ApiKeys keys =
      Keys(R"({"tenants": [{"name": "acme", "keys": ["key-one-0123456789", "key-two-0123456789"],)"
           R"("priority": -5, "weight": 3, "max_requests": 8, "tokens_per_minute": 1000},)"
           R"({"name": "ops", "keys": ["key-three-0123456789"], "admin": true}]})");
  const auto acme = keys.Find(kTwo);
  ASSERT_NE(acme, nullptr);
  EXPECT_EQ(acme->name, "acme");
  EXPECT_EQ(acme->priority, -5);
  EXPECT_EQ(acme->weight, 3u);
  EXPECT_EQ(acme->max_requests, 8u);
  EXPECT_EQ(acme->tokens_per_minute, 1000u);
  EXPECT_FALSE(acme->is_admin);
  ASSERT_NE(keys.Find(kThree), nullptr);
  EXPECT_TRUE(keys.Find(kThree)->is_admin);
  EXPECT_EQ(keys.Find(kThree)->tokens_per_minute, 0u);
}

TEST(ApiKeys, SaysWhatIsWrongAndWhereButNeverTheKey) {
  struct Case {
    std::string_view text;
    std::string_view names;  // in the message
  };
  const std::vector<Case> cases = {
      {"", "no key"},
      {"# nothing\n", "no key"},
      {"short-secret", "line 1"},
      {"ok-0123456789-0123\na b:secret-0123456789", "line 2"},
      {":secret-0123456789", "line 1"},
      {"acme:secret 0123456789", "line 1"},
      {"secret-0123456789\nacme:secret-0123456789", "line 2: the key is given twice"},
      {"{", "not valid JSON"},
      {"{}", "'tenants'"},
      {R"({"tenants": []})", "'tenants'"},
      {R"({"tenants": [5]})", "tenants[0]"},
      {R"({"tenants": [{"keys": ["secret-0123456789"]}]})", "tenants[0]"},
      {R"({"tenants": [{"name": "a"}]})", "tenants[0] has no keys"},
      {R"({"tenants": [{"name": "a", "keys": [5]}]})", "'tenants[0].keys'"},
      {R"({"tenants": [{"name": "a", "keys": ["secret"]}]})", "tenants[0]"},
      {R"({"tenants": [{"name": "a", "keys": ["secret-0123456789"], "quota": 5}]})", "'quota'"},
      {R"({"tenants": [{"name": "a", "keys": ["secret-0123456789"], "max_requests": -1}]})",
       "'tenants[0].max_requests'"},
      {R"({"tenants": [{"name": "a", "keys": ["secret-0123456789"], "weight": 0}]})",
       "'tenants[0].weight'"},
      {R"({"tenants": [{"name": "a", "keys": ["secret-0123456789"]},)"
       R"({"name": "a", "keys": ["secret-0123456780"]}]})",
       "tenants[1] has the name"},
  };
  for (const Case& c : cases) {
    const std::string message = ErrorOf(c.text);
    EXPECT_NE(message.find(c.names), std::string::npos) << c.text << ": " << message;
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  }
}

TEST(ApiKeys, BoundsAreAcceptedAndNothingAbove) {
  const ApiKeyLimits limits{.max_keys = 2, .min_key_bytes = 4, .max_key_bytes = 6};
  EXPECT_TRUE(ApiKeys::Parse("abcd\nabcdef", limits).ok());
  EXPECT_FALSE(ApiKeys::Parse("abc", limits).ok());
  EXPECT_FALSE(ApiKeys::Parse("abcdefg", limits).ok());
  EXPECT_FALSE(ApiKeys::Parse("abcd\nabce\nabcf", limits).ok());
  EXPECT_TRUE(ApiKeys::Parse(std::string(128, 't') + ":abcd", limits).ok());
  EXPECT_FALSE(ApiKeys::Parse(std::string(129, 't') + ":abcd", limits).ok());
}

}  // namespace
}  // namespace ashlar::server
