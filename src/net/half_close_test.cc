// Clients that have closed their sending half: some still read, others have left.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "net/testing/held_server.h"
#include "net/testing/http_client.h"

namespace ashlar::net {
namespace {

using testing::ClientResponse;
using testing::HttpClient;
using testing::Text;

constexpr std::string_view kBeat = ":\n\n";

class HalfCloseTest : public testing::HttpServerTest {};

TEST_F(HalfCloseTest, AnswersAClientThatStillReads) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  client.CloseSendingHalf();
  EXPECT_EQ(client.ReadHead().status, 100);
  responder.Send(Text("anyway"));
  EXPECT_EQ(client.ReadResponse().body, "anyway");
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_FALSE(gone_.IsSet());
}

TEST_F(HalfCloseTest, StreamsToAClientThatStillReads) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({}, kBeat);
  ClientResponse response = client.ReadHead();
  client.CloseSendingHalf();
  EXPECT_EQ(client.ReadChunk(), kBeat);
  EXPECT_TRUE(responder.Write("text"));
  EXPECT_EQ(client.ReadChunk(), "text");
  responder.End();
  client.ReadBody(response);
  EXPECT_TRUE(response.is_complete);
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HalfCloseTest, NoticesAClientThatLeavesLater) {
  StartServer({.heartbeat_ms = 5});
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  client.CloseSendingHalf();
  for (int beats = 0; beats < 3; ++beats) {
    EXPECT_EQ(client.ReadHead().status, 100);
  }
  client.Close();
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HalfCloseTest, NoticesAStreamsReaderThatLeavesLater) {
  StartServer({.heartbeat_ms = 5});
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  responder.StartStream({}, kBeat);
  client.ReadHead();
  client.CloseSendingHalf();
  for (int beats = 0; beats < 3; ++beats) {
    EXPECT_EQ(client.ReadChunk(), kBeat);
  }
  client.Close();
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(HalfCloseTest, CountsAsGoneWhereNothingHarmlessCanBeSent) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  Held().StartStream({});
  client.ReadHead();
  client.CloseSendingHalf();
  EXPECT_TRUE(gone_.Wait());
  EXPECT_FALSE(Held().Write("x"));
}

TEST_F(HalfCloseTest, AnOldClientCountsAsGoneButAQuickAnswerReachesIt) {
  StartServer();
  HttpClient client(server_->port());
  client.SendBytes("GET /hold HTTP/1.0\r\n\r\n");
  const Responder responder = Held();
  client.CloseSendingHalf();
  EXPECT_TRUE(gone_.Wait());
  responder.Send(Text("anyway"));
  EXPECT_EQ(client.ReadResponse().body, "anyway");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HalfCloseTest, ARequestThatCameWithTheEndIsAnswered) {
  StartServer();
  HttpClient client(server_->port());
  client.SendRequest("GET", "/quick");
  client.CloseSendingHalf();
  ClientResponse response = client.ReadHead();
  if (response.status == 100) {  // the end came before the answer
    response = client.ReadHead();
  }
  client.ReadBody(response);
  EXPECT_EQ(response.body, "GET /quick ");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HalfCloseTest, HalfARequestIsNoneAndTheConnectionEnds) {
  StartServer();
  HttpClient client(server_->port());
  client.SendBytes("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
  client.CloseSendingHalf();
  EXPECT_TRUE(client.ReadsEnd());
}

// --- Heartbeats of clients that are well ---

TEST_F(HalfCloseTest, ASilentStreamBeatsAndASilentAnswerDoesNot) {
  StartServer({.heartbeat_ms = 5});
  HttpClient client(server_->port());
  client.SendRequest("GET", "/hold");
  const Responder responder = Held();
  HttpClient other(server_->port());
  other.SendRequest("GET", "/hold");
  responder.StartStream({}, kBeat);
  client.ReadHead();
  for (int beats = 0; beats < 3; ++beats) {
    EXPECT_EQ(client.ReadChunk(), kBeat);
  }
  responder.End();
  for (std::string chunk = *client.ReadChunk(); !chunk.empty(); chunk = *client.ReadChunk()) {
    EXPECT_EQ(chunk, kBeat);
  }
  DropHeld();
  EXPECT_EQ(other.ReadResponse().status, 500);  // the first it hears
  EXPECT_EQ(client.Request("GET", "/next").body, "GET /next ");
}

}  // namespace
}  // namespace ashlar::net
