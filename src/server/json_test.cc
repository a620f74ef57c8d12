#include "server/json.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace ashlar::server {
namespace {

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  const auto json = ParseJson(text, limits);
  return json.ok() ? "" : json.error().message + " @ " + json.error().param;
}

TEST(ParseJson, KeepsTheOrderOfKeysAndEveryKindOfValue) {
  constexpr std::string_view kText = R"({"z":1,"a":[true,null,-2,1.5,"\u00e9\n"],"m":{"k":{}}})";
  const auto json = ParseJson(kText);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(DumpJson(*json), "{\"z\":1,\"a\":[true,null,-2,1.5,\"\xc3\xa9\\n\"],\"m\":{\"k\":{}}}");
}

TEST(ParseJson, NamesTheFieldAndTheByteOfASyntaxError) {
  EXPECT_EQ(ErrorOf(R"({"prompt": "x", "n": 1,})"),
            "the request body is not valid JSON at byte 24 @ n");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user"}, {"role" 1}]})"),
            "the request body is not valid JSON at byte 41 @ messages[1].role");
  EXPECT_NE(ErrorOf("[1] 2"), "");
  EXPECT_NE(ErrorOf("NaN"), "");
  EXPECT_NE(ErrorOf("{\"a\": Infinity}"), "");
  EXPECT_NE(ErrorOf("\xef\xbb\xbf"), "");
  EXPECT_EQ(ErrorOf(" \r\n"), "the request has no body; send a JSON object @ ");
}

TEST(ParseJson, RefusesTextThatIsNotUtf8) {
  EXPECT_NE(ErrorOf("{\"prompt\": \"\xff\"}").find("@ prompt"), std::string::npos);
  EXPECT_NE(ErrorOf("{\"prompt\": \"\xed\xa0\x80\"}"), "");  // a surrogate
  EXPECT_NE(ErrorOf("{\"prompt\": \"\\ud800\"}"), "");       // half of a pair
  EXPECT_EQ(ErrorOf("{\"prompt\": \"\\ud83d\\ude00\"}"), "");
}

TEST(ParseJson, RefusesAKeyThatIsGivenTwice) {
  EXPECT_EQ(ErrorOf(R"({"n": 1, "m": 2, "n": 3})"), "the key 'n' is given twice @ n");
  EXPECT_EQ(ErrorOf(R"([{"a": {"x": 1, "x": 1}}])"), "the key 'x' is given twice @ [0].a.x");
  EXPECT_EQ(ErrorOf(R"([{"a": 1}, {"a": 1}])"), "");
}

TEST(ParseJson, RefusesNumbersOutOfRange) {
  EXPECT_EQ(ErrorOf(R"({"seed": 1e999})"), "the number 1e999 is out of range @ seed");
  EXPECT_EQ(ErrorOf(R"({"seed": 123456789012345678901234567890})"),
            "");  // a float, for the field to judge
}

TEST(ParseJson, BoundsNestingAtTheLimit) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(ErrorOf(nested(64)), "");
  EXPECT_NE(ErrorOf(nested(65)).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string(1'000'000, '[')).find("nested deeper"), std::string::npos);
}

TEST(ParseJson, BoundsTheNumberOfValuesAtTheLimit) {
  const JsonLimits limits{.max_depth = 4, .max_values = 4};
  EXPECT_EQ(ErrorOf("[1,2,3]", limits), "");
  EXPECT_NE(ErrorOf("[1,2,3,4]", limits).find("more than 4 values"), std::string::npos);
}

// Looking for each key among those before it would take minutes.
TEST(ParseJson, AnObjectOfManyKeysIsNotQuadratic) {
  std::string text = "{";
  for (int i = 0; i < 30'000; ++i) {
    text += "\"" + std::to_string(i) + "\":0,";
  }
  text += "\"last\":0}";
  EXPECT_EQ(ErrorOf(text), "");
}

TEST(ParseJson, SurvivesMutatedBytes) {
  constexpr std::string_view kGood =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\u20ac"}]}],"n":2e0})";
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text(kGood);
    for (std::size_t i = 1 + random() % 3; i > 0; --i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto json = ParseJson(text);
    if (json.ok()) {
      EXPECT_TRUE(ParseJson(DumpJson(*json)).ok());
    } else {
      ++refused;
      EXPECT_TRUE(ParseJson(ErrorBody(json.error())).ok());
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(DumpJson, ReplacesWhatIsNotUtf8) { EXPECT_EQ(DumpJson(Json("a\xffz")), "\"a\xef\xbf\xbdz\""); }

TEST(ApiError, HasOpenAisShapeAndSaysWhenToComeAgain) {
  const net::HttpResponse full =
      ErrorResponse(ApiErrorFrom(MakeError(ErrorCode::kResourceExhausted, "the queue is full")));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.body,
            R"({"error":{"message":"the queue is full","type":"rate_limit_error","param":null,)"
            R"("code":"rate_limit_exceeded"}})");
  ASSERT_EQ(full.headers.size(), 1u);
  EXPECT_EQ(full.headers[0].first, "Retry-After");
  EXPECT_EQ(ApiErrorFrom(MakeError(ErrorCode::kInvalidArgument, "x")).status, 400);
  EXPECT_EQ(ApiErrorFrom(MakeError(ErrorCode::kUnavailable, "x")).status, 503);
  EXPECT_EQ(ApiErrorFrom(MakeError(ErrorCode::kIo, "x")).status, 500);
}

}  // namespace
}  // namespace ashlar::server
