#include "server/answer_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "server/testing/byte_tokenizer.h"
#include "server/testing/captured_answer.h"

namespace ashlar::server {
namespace {

class WholeAnswerTest : public ::testing::Test {
 protected:
  std::unique_ptr<AnswerWriter> Writer(bool with_logprobs = false) {
    const auto answer = testing::CapturedAnswer::Create();
    answers_.push_back(answer);
    return MakeWholeAnswer(
        tokenizer_, {.with_logprobs = with_logprobs},
        Reply(answer->TakeResponder(), std::make_unique<RequestRecord>(), clock_, nullptr),
        memory_);
  }

  static TextPiece Text(std::size_t bytes) { return {.text = std::string(bytes, 'x')}; }

  const ManualClock clock_;
  const testing::ByteTokenizer tokenizer_;
  const std::shared_ptr<AnswerMemory> memory_ =
      std::make_shared<AnswerMemory>(AnswerLimits{.max_bytes = 100, .max_total_bytes = 150});
  std::vector<std::shared_ptr<testing::CapturedAnswer>> answers_;
};

TEST_F(WholeAnswerTest, OneMayGrowSoFar) {
  const auto writer = Writer();
  writer->AddPiece(0, Text(100));
  EXPECT_FALSE(writer->Overflow().has_value());
  writer->AddPiece(0, Text(1));
  ASSERT_TRUE(writer->Overflow().has_value());
  EXPECT_EQ(writer->Overflow()->status, 400);
}

TEST_F(WholeAnswerTest, CountsWhatTextAndLogprobsTakeAsJson) {
  const auto writer = Writer(true);
  writer->AddPiece(0, {.text = "\n\x01"});
  EXPECT_EQ(memory_->bytes, 8u);  // \n\u0001
  TokenEntry entry;
  entry.logprobs.token = 'h';
  writer->AddPiece(0, {.text = {}, .tokens = {entry}});
  EXPECT_EQ(memory_->bytes, 8u + std::string(R"("h"0.0{"h":0.0}0)").size());
}

TEST_F(WholeAnswerTest, AllTogetherMayGrowSoFarAndOneThatEndsMakesRoom) {
  const auto first = Writer();
  auto second = Writer();
  first->AddPiece(0, Text(75));
  second->AddPiece(0, Text(75));
  EXPECT_FALSE(first->Overflow().has_value());
  second->AddPiece(0, Text(1));
  ASSERT_TRUE(first->Overflow().has_value());
  EXPECT_EQ(first->Overflow()->status, 503);
  first->Fail(*first->Overflow());
  EXPECT_EQ(memory_->bytes, 76u);
  EXPECT_FALSE(second->Overflow().has_value());
  second->FinishSequence(0, {.finish_reason = "stop", .stop_reason = {}});
  second->Complete({});
  EXPECT_EQ(memory_->bytes, 0u);
  EXPECT_TRUE(answers_[1]->Wait());
  EXPECT_EQ(answers_[1]->json()["choices"][0]["text"], std::string(76, 'x'));
  auto third = Writer();
  third->AddPiece(0, Text(75));
  third.reset();  // its client left
  EXPECT_EQ(memory_->bytes, 0u);
}

}  // namespace
}  // namespace ashlar::server
