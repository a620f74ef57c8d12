#include "text/jinja/value.h"

#include <gtest/gtest.h>

#include <cmath>

#include "text/jinja/runtime.h"
#include "text/jinja/testing/render.h"

namespace ashlar::text::jinja {
namespace {

Value Key(int i) { return Value::Constant("key" + std::to_string(i)); }

TEST(Value, DictsFindEveryKeyWithAndWithoutAnIndex) {
  Runtime runtime(Limits(), testing::kNow);
  for (const int size : {0, 1, 8, 9, 100}) {
    Entries entries;
    for (int i = 0; i < size; ++i) {
      entries.emplace_back(Key(i), Value::Integer(i));
    }
    const Value dict = *runtime.MakeDict(entries);
    for (int i = 0; i < size; ++i) {
      ASSERT_NE(dict.dict().Find(Key(i)), nullptr);
      EXPECT_EQ(dict.dict().Find(Key(i))->integer(), i);
      EXPECT_EQ(dict.dict().entries[static_cast<std::size_t>(i)].second.integer(), i)
          << "order of insertion";
    }
    EXPECT_EQ(dict.dict().Find("key"), nullptr);
    EXPECT_EQ(dict.dict().Find("zzz"), nullptr);
    EXPECT_EQ(dict.dict().Find(Value::Integer(1)), nullptr);
  }
}

TEST(Value, TheLastValueOfAKeyWinsInTheFirstPlace) {
  Runtime runtime(Limits(), testing::kNow);
  Entries entries;
  for (int i = 0; i < 40; ++i) {
    entries.emplace_back(Key(i % 20), Value::Integer(i));
  }
  const Value dict = *runtime.MakeDict(entries);
  ASSERT_EQ(dict.dict().entries.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(dict.dict().entries[static_cast<std::size_t>(i)].first.bytes(), Key(i).bytes());
    EXPECT_EQ(dict.dict().Find(Key(i))->integer(), i + 20);
  }
}

TEST(Value, KeysOfOneNumberAreOneKey) {
  EXPECT_FALSE(KeyLess(Value::Integer(1), Value::Bool(true)));
  EXPECT_FALSE(KeyLess(Value::Float(1.0), Value::Integer(1)));
  EXPECT_TRUE(KeyLess(Value::None(), Value::Integer(-5)));
  EXPECT_TRUE(KeyLess(Value::Integer(5), Value::Constant("")));
  EXPECT_TRUE(KeyLess(Value::Constant("a"), Value::Constant("b")));
}

TEST(Value, IntegersAndFloatsCompareExactly) {
  constexpr Int kTwoTo53 = Int{1} << 53;
  const Value real = Value::Float(0x1p53);
  EXPECT_TRUE(CompareNumbers(Value::Integer(kTwoTo53), real) == 0);
  EXPECT_TRUE(CompareNumbers(Value::Integer(kTwoTo53 + 1), real) > 0);
  EXPECT_TRUE(CompareNumbers(real, Value::Integer(kTwoTo53 + 1)) < 0);
  EXPECT_TRUE(CompareNumbers(Value::Integer(-1), Value::Float(-1.5)) > 0);
  EXPECT_TRUE(CompareNumbers(Value::Integer(kTwoTo53), Value::Float(1e300)) < 0);
  EXPECT_TRUE(CompareNumbers(Value::Integer(-kTwoTo53), Value::Float(-1e300)) > 0);
  EXPECT_FALSE(CompareNumbers(Value::Integer(1), Value::Float(NAN)) == 0);
}

TEST(Value, NotANumberIsAKeyLikeAnyOther) {
  Runtime runtime(Limits(), testing::kNow);
  Entries entries;
  for (int i = 0; i < 30; ++i) {
    entries.emplace_back(i % 3 == 0 ? Value::Float(NAN) : Value::Integer(i), Value::Integer(i));
  }
  const Value dict = *runtime.MakeDict(entries);
  EXPECT_EQ(dict.dict().entries.size(), 21u);
  EXPECT_EQ(dict.dict().Find(Value::Integer(29))->integer(), 29);
}

TEST(Value, LiveBytesReturnToZero) {
  Limits limits;
  limits.live_bytes = 3000;
  Runtime runtime(limits, testing::kNow);
  for (int i = 0; i < 10; ++i) {
    const Result<Value> text = runtime.String(std::string(2000, 'x'));
    ASSERT_TRUE(text.ok());
    EXPECT_FALSE(runtime.String(std::string(2000, 'x')).ok());
  }
}

TEST(Value, StringsKnowTheirLengthInCodePoints) {
  Runtime runtime(Limits(), testing::kNow);
  EXPECT_EQ(runtime.String("h\u00e9\u4e2d\U0001f600")->text().chars, 4u);
  EXPECT_EQ(Value::Constant("").text().chars, 0u);
}

}  // namespace
}  // namespace ashlar::text::jinja
