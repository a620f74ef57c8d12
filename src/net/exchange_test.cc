#include "net/exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ashlar::net {
namespace {

class FakeTransport : public AnswerTransport {
 public:
  void ScheduleFlush() override { ++flushes; }
  int flushes = 0;
};

class ExchangeTest : public ::testing::Test {
 protected:
  std::shared_ptr<Exchange> Make(AnswerOptions options = {}) {
    return std::make_shared<Exchange>(transport_, options);
  }

  static std::string BodyOf(const std::string& bytes) {
    const std::size_t end = bytes.find("\r\n\r\n");
    return end == std::string::npos ? bytes : bytes.substr(end + 4);
  }

  std::shared_ptr<FakeTransport> transport_ = std::make_shared<FakeTransport>();
};

HttpResponse Text(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

TEST_F(ExchangeTest, SendIsHeadAndBodyAndLast) {
  const auto exchange = Make();
  exchange->Send(Text("hi"));
  const Exchange::Output output = exchange->TakeOutput();
  EXPECT_NE(output.bytes.find("Content-Length: 2\r\n"), std::string::npos);
  EXPECT_EQ(BodyOf(output.bytes), "hi");
  EXPECT_TRUE(output.is_last);
  EXPECT_FALSE(output.close_after);
}

TEST_F(ExchangeTest, HeadGetsTheLengthButNotTheBody) {
  const auto exchange = Make({.is_head = true});
  exchange->Send(Text("hello"));
  const std::string bytes = exchange->TakeOutput().bytes;
  EXPECT_NE(bytes.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(BodyOf(bytes), "");
}

TEST_F(ExchangeTest, HeadOfAStreamIsOnlyItsHead) {
  const auto exchange = Make({.is_head = true});
  exchange->StartStream({});
  EXPECT_TRUE(exchange->Write("data"));
  exchange->End();
  const Exchange::Output output = exchange->TakeOutput();
  EXPECT_EQ(BodyOf(output.bytes), "");
  EXPECT_TRUE(output.is_last);
}

TEST_F(ExchangeTest, WritesBecomeChunksAndOneFlush) {
  const auto exchange = Make();
  exchange->StartStream({});
  EXPECT_TRUE(exchange->Write("ab"));
  EXPECT_TRUE(exchange->Write(""));
  EXPECT_TRUE(exchange->Write("cde"));
  EXPECT_EQ(transport_->flushes, 1);
  EXPECT_EQ(BodyOf(exchange->TakeOutput().bytes), "2\r\nab\r\n3\r\ncde\r\n");
  exchange->End();
  EXPECT_EQ(transport_->flushes, 2);
  const Exchange::Output output = exchange->TakeOutput();
  EXPECT_EQ(output.bytes, "0\r\n\r\n");
  EXPECT_TRUE(output.is_last);
}

TEST_F(ExchangeTest, AnOldClientsStreamIsRawAndEndsWithTheConnection) {
  const auto exchange = Make({.is_http10 = true});
  exchange->StartStream({});
  exchange->Write("raw");
  exchange->End();
  const Exchange::Output output = exchange->TakeOutput();
  EXPECT_EQ(BodyOf(output.bytes), "raw");
  EXPECT_TRUE(output.close_after);
}

TEST_F(ExchangeTest, CutsAStreamWhoseUnsentBytesPassTheLimit) {
  const auto exchange = Make({.max_pending_bytes = 1000});
  exchange->StartStream({});
  exchange->MarkSent(exchange->TakeOutput().bytes.size());
  EXPECT_TRUE(exchange->Write(std::string(900, 'x')));
  const std::size_t taken = exchange->TakeOutput().bytes.size();  // in flight still counts
  EXPECT_EQ(exchange->unsent_bytes(), taken);
  EXPECT_TRUE(exchange->Write(std::string(900, 'x')));  // not above
  EXPECT_GT(exchange->unsent_bytes(), 1000u);
  EXPECT_FALSE(exchange->Write("x"));
  EXPECT_FALSE(exchange->Write("x"));
  EXPECT_TRUE(exchange->TakeOutput().is_cut);
  exchange->MarkSent(taken);
}

TEST_F(ExchangeTest, SentBytesMakeRoomAgain) {
  const auto exchange = Make({.max_pending_bytes = 1000});
  exchange->StartStream({});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(exchange->Write(std::string(900, 'x')));
    exchange->MarkSent(exchange->TakeOutput().bytes.size());
  }
}

TEST_F(ExchangeTest, GoneIsToldOnceAndEndsTheStream) {
  const auto exchange = Make();
  int gone = 0;
  exchange->StartStream({});
  exchange->OnClientGone([&] { ++gone; });
  exchange->MarkGone();
  exchange->MarkClosed();
  EXPECT_EQ(gone, 1);
  EXPECT_FALSE(exchange->Write("x"));
}

TEST_F(ExchangeTest, GoneBeforeTheCallbackIsToldAtOnce) {
  const auto exchange = Make();
  exchange->MarkGone();
  int gone = 0;
  exchange->OnClientGone([&] { ++gone; });
  EXPECT_EQ(gone, 1);
}

TEST_F(ExchangeTest, ACompleteAnswerIsNotCalledOff) {
  const auto exchange = Make();
  int gone = 0;
  exchange->OnClientGone([&] { ++gone; });
  exchange->Send(Text("x"));
  exchange->OnClientGone([&] { ++gone; });
  exchange->MarkClosed();
  EXPECT_EQ(gone, 0);
}

TEST_F(ExchangeTest, AClosedTransportIsNotCalled) {
  const auto exchange = Make();
  exchange->MarkClosed();
  exchange->Send(Text("x"));
  EXPECT_EQ(transport_->flushes, 0);
}

TEST_F(ExchangeTest, ADroppedHandleAnswersWithTheFallback) {
  const auto exchange = Make();
  {
    const Responder responder(std::make_shared<Responder::Impl>(exchange, Text("fallback")));
  }
  const Exchange::Output output = exchange->TakeOutput();
  EXPECT_EQ(BodyOf(output.bytes), "fallback");
  EXPECT_TRUE(output.is_last);
}

TEST_F(ExchangeTest, AStreamDroppedWithoutEndIsCut) {
  const auto exchange = Make();
  {
    const Responder responder(std::make_shared<Responder::Impl>(exchange, Text("fallback")));
    responder.StartStream({});
    EXPECT_TRUE(responder.Write("half"));
  }
  EXPECT_TRUE(exchange->TakeOutput().is_cut);
}

TEST_F(ExchangeTest, CutsWhoHoldsMoreThanAFairPartWhenAllTogetherAreTooMany) {
  const auto total = std::make_shared<PendingTotal>(200'000);
  const auto greedy = Make({.total = total});
  const auto modest = Make({.total = total});
  greedy->StartStream({});
  modest->StartStream({});
  EXPECT_TRUE(greedy->Write(std::string(200'000, 'x')));
  EXPECT_TRUE(modest->Write(std::string(1000, 'x')));  // what others hold is not its fault
  EXPECT_TRUE(modest->Write("x"));
  EXPECT_FALSE(greedy->Write("x"));
  EXPECT_LT(total->bytes, 2000u);
}

TEST_F(ExchangeTest, TheTotalReturnsToZeroHoweverAnswersEnd) {
  const auto total = std::make_shared<PendingTotal>(1000);
  {
    const auto sent = Make({.total = total});
    sent->Send(Text("hi"));
    EXPECT_GT(total->bytes, 2u);
    sent->MarkSent(sent->TakeOutput().bytes.size());
    EXPECT_EQ(total->bytes, 0u);
    const auto closed = Make({.total = total});
    closed->StartStream({});
    (void)closed->TakeOutput();  // in flight
    closed->Write("x");
    closed->MarkClosed();
    EXPECT_EQ(total->bytes, 0u);
    closed->End();
    const auto dropped = Make({.total = total});
    dropped->Send(Text("never taken"));
    EXPECT_GT(total->bytes, 0u);
  }
  EXPECT_EQ(total->bytes, 0u);
}

TEST_F(ExchangeTest, HeadersAddedBeforeReachTheAnswerWhoeverGivesIt) {
  const auto streamed = Make();
  streamed->AddHeader("X-Id", "7\r\nEvil: 1");
  streamed->StartStream({});
  EXPECT_NE(streamed->TakeOutput().bytes.find("X-Id: 7  Evil: 1\r\n"), std::string::npos);
  const auto dropped = Make();
  {
    const Responder responder(std::make_shared<Responder::Impl>(dropped, Text("fallback")));
    responder.AddHeader("X-Id", "8");
  }
  EXPECT_NE(dropped->TakeOutput().bytes.find("X-Id: 8\r\n"), std::string::npos);
}

TEST_F(ExchangeTest, OnlyASilentStreamWithAHeartbeatBeats) {
  const auto exchange = Make();
  EXPECT_FALSE(exchange->Beat());
  exchange->StartStream({}, ":");
  EXPECT_FALSE(exchange->Beat());  // its head is on the way
  exchange->MarkSent(exchange->TakeOutput().bytes.size());
  EXPECT_TRUE(exchange->Beat());
  EXPECT_EQ(exchange->TakeOutput().bytes, "1\r\n:\r\n");
  exchange->End();
  EXPECT_FALSE(exchange->Beat());
  const auto plain = Make();
  plain->StartStream({});
  plain->MarkSent(plain->TakeOutput().bytes.size());
  EXPECT_FALSE(plain->Beat());
  const auto head = Make({.is_head = true});
  head->StartStream({}, ":");
  head->MarkSent(head->TakeOutput().bytes.size());
  EXPECT_FALSE(head->Beat());
}

TEST_F(ExchangeTest, AProbeIsAnInterimAnswerOrAHeartbeatOrImpossible) {
  const auto exchange = Make();
  EXPECT_TRUE(exchange->Probe());
  EXPECT_TRUE(exchange->Probe());  // one is on the way
  const std::string interim = exchange->TakeOutput().bytes;
  EXPECT_EQ(interim, "HTTP/1.1 100 Continue\r\n\r\n");
  exchange->MarkSent(interim.size());
  exchange->Send(Text("x"));
  EXPECT_TRUE(exchange->Probe());
  EXPECT_FALSE(Make({.is_http10 = true})->Probe());
}

}  // namespace
}  // namespace ashlar::net
