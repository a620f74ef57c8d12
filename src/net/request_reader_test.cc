#include "net/request_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::net {
namespace {

using Progress = RequestReader::Progress;

constexpr std::size_t kMaxHeader = 512;
constexpr std::size_t kMaxBody = 100;

// Feeds `text` in pieces of `piece` bytes, as a connection would. `left`: what was not taken.
Progress FeedAll(RequestReader& reader, std::string_view text, std::size_t piece,
                 std::string* left = nullptr) {
  std::string waiting;
  Progress progress = Progress::kNeedsMore;
  std::size_t at = 0;
  while (at < text.size() && progress == Progress::kNeedsMore) {
    waiting += text.substr(at, piece);
    at += piece;
    std::size_t consumed = 0;
    progress = reader.Feed(waiting, consumed);
    waiting.erase(0, consumed);
  }
  if (left != nullptr) {
    *left = waiting + std::string(at < text.size() ? text.substr(at) : "");
  }
  return progress;
}

int FailureOf(std::string_view text, std::size_t piece = 7) {
  RequestReader reader(kMaxHeader, kMaxBody);
  return FeedAll(reader, text, piece) == Progress::kFailed ? reader.failure_status() : 0;
}

TEST(RequestReader, ReadsTheSameRequestInPiecesOfAnySize) {
  constexpr std::string_view kText =
      "POST /v1/x?a=1&b HTTP/1.1\r\nHost: h\r\nX-Two:  padded \r\nContent-Length: 5\r\n\r\nhello";
  for (std::size_t piece = 1; piece <= kText.size(); ++piece) {
    RequestReader reader(kMaxHeader, kMaxBody);
    ASSERT_EQ(FeedAll(reader, kText, piece), Progress::kDone) << piece;
    EXPECT_TRUE(reader.keep_alive());
    EXPECT_FALSE(reader.is_http10());
    const HttpRequest request = reader.TakeRequest();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/x");
    EXPECT_EQ(request.query, "a=1&b");
    EXPECT_EQ(request.Header("x-two"), "padded");
    EXPECT_EQ(request.Header("absent"), "");
    EXPECT_EQ(request.body, "hello");
  }
}

TEST(RequestReader, JoinsChunksAndLeavesTheNextRequestAlone) {
  constexpr std::string_view kText =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: x\r\n\r\nGET /next";
  for (const std::size_t piece : {1u, 5u, 1000u}) {
    RequestReader reader(kMaxHeader, kMaxBody);
    std::string left;
    ASSERT_EQ(FeedAll(reader, kText, piece, &left), Progress::kDone);
    EXPECT_EQ(reader.TakeRequest().body, "abcde");
    EXPECT_EQ(left, "GET /next");
  }
}

// Beast 1.81 asserts on such cuts; found by the fuzzer.
TEST(RequestReader, TheLastChunkMayComeInPiecesOfAnySize) {
  constexpr std::string_view kHead =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string_view body :
       {"0\r\n\r\n", "00\r\n\r\n", "0\r\nX: y\r\n\r\n", "2\r\nab\r\n0\r\n\r\n"}) {
    const std::string text = std::string(kHead) + std::string(body);
    for (std::size_t first = kHead.size(); first < text.size(); ++first) {
      for (std::size_t piece = 1; piece <= 6; ++piece) {
        RequestReader reader(kMaxHeader, kMaxBody);
        std::size_t consumed = 0;
        Progress progress = reader.Feed(text.substr(0, first), consumed);
        if (progress == Progress::kNeedsMore) {
          progress = FeedAll(reader, text.substr(consumed), piece);
        }
        EXPECT_EQ(progress, Progress::kDone) << body << " " << first << " " << piece;
      }
    }
  }
}

TEST(RequestReader, AcceptsAHeadOfTheLimitAndNoByteMore) {
  for (const std::size_t piece : {1u, 3u, 4096u}) {
    for (const std::size_t over : {0u, 1u}) {
      std::string text = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
      text += std::string(kMaxHeader + over - text.size() - 4, 'x') + "\r\n\r\n";
      EXPECT_EQ(FailureOf(text, piece), over == 0 ? 0 : 431) << piece;
    }
  }
}

TEST(RequestReader, CountsFieldsThatTrickleIn) {
  RequestReader reader(kMaxHeader, kMaxBody);
  std::string text = "GET / HTTP/1.1\r\nHost: h\r\n";
  std::size_t consumed = 0;
  Progress progress = reader.Feed(text, consumed);
  std::string waiting = text.substr(consumed);
  std::size_t fields = 0;
  while (progress == Progress::kNeedsMore && fields < 1000) {
    waiting += fmt::format("A{}: b\r\n", fields++);
    progress = reader.Feed(waiting, consumed);
    waiting.erase(0, consumed);
  }
  EXPECT_EQ(reader.failure_status(), 431);
  EXPECT_LT(fields, kMaxHeader / 6);
}

TEST(RequestReader, AcceptsABodyOfTheLimitAndNoByteMore) {
  const auto with_length = [](std::size_t size) {
    return fmt::format("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}", size,
                       std::string(size, 'b'));
  };
  const auto chunked = [](std::size_t size) {
    return fmt::format(
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1\r\na\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        size - 1, std::string(size - 1, 'b'));
  };
  EXPECT_EQ(FailureOf(with_length(kMaxBody)), 0);
  EXPECT_EQ(FailureOf(with_length(kMaxBody + 1)), 413);
  EXPECT_EQ(FailureOf(chunked(kMaxBody)), 0);
  EXPECT_EQ(FailureOf(chunked(kMaxBody + 1)), 413);
  EXPECT_EQ(FailureOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n"),
            413);
  EXPECT_EQ(FailureOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "ffffffffffffffff\r\nx"),
            413);
}

TEST(RequestReader, BoundsTheChunkSizeLine) {
  const std::string text = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                           std::string(20'000, 'e');
  EXPECT_EQ(FailureOf(text, 512), 400);
}

TEST(RequestReader, NamesWhatIsWrongByStatus) {
  struct Case {
    int status;
    std::string_view text;
  };
  const std::vector<Case> cases = {
      {400, "\x16\x03\x01 a TLS hello \r\n\r\n"},
      {400, "GET\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\n\r\n"},                        // no Host
      {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},  // two
      {400, "GET nonsense HTTP/1.1\r\nHost: h\r\n\r\n"},      // target
      {400, "GET / HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: h\nX: bare newline\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"},
      // Two framings: the start of request smuggling.
      {400,
       "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {400,
       "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n"},
      {417, "POST / HTTP/1.1\r\nHost: h\r\nExpect: a-miracle\r\nContent-Length: 1\r\n\r\n"},
      {501, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n"},
      {505, "GET / HTTP/2.0\r\nHost: h\r\n\r\n"},
      {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
  };
  for (const Case& c : cases) {
    for (const std::size_t piece : {1u, 1000u}) {
      EXPECT_EQ(FailureOf(c.text, piece), c.status) << c.text;
    }
  }
}

TEST(RequestReader, WishesToContinueOnceAndOnlyBeforeTheBody) {
  constexpr std::string_view kHead =
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  RequestReader reader(kMaxHeader, kMaxBody);
  EXPECT_EQ(FeedAll(reader, kHead, 1000), Progress::kNeedsMore);
  EXPECT_TRUE(reader.TakeContinueWish());
  EXPECT_FALSE(reader.TakeContinueWish());
  std::size_t consumed = 0;
  EXPECT_EQ(reader.Feed("ab", consumed), Progress::kDone);
  EXPECT_FALSE(reader.TakeContinueWish());
}

TEST(RequestReader, AnOldClientsConnectionClosesUnlessItAsks) {
  RequestReader plain(kMaxHeader, kMaxBody);
  EXPECT_EQ(FeedAll(plain, "GET / HTTP/1.0\r\n\r\n", 1000), Progress::kDone);
  EXPECT_TRUE(plain.is_http10());
  EXPECT_FALSE(plain.keep_alive());
  RequestReader asking(kMaxHeader, kMaxBody);
  EXPECT_EQ(FeedAll(asking, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1000),
            Progress::kDone);
  EXPECT_TRUE(asking.keep_alive());
}

// Mutations of a good request: whatever comes, an end is reached within the limits.
TEST(RequestReader, SurvivesMutatedBytes) {
  constexpr std::string_view kGood =
      "POST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
      "3\r\nabc\r\n10;x=\"y\"\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\n";
  std::mt19937 random(20240611);
  std::size_t failed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text(kGood);
    for (std::size_t i = random() % 4; i > 0; --i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) {
      text.insert(random() % text.size(), text.substr(random() % text.size()));
    }
    RequestReader reader(kMaxHeader, kMaxBody);
    const Progress progress = FeedAll(reader, text, 1 + random() % 40);
    if (progress == Progress::kFailed) {
      ++failed;
      EXPECT_GE(reader.failure_status(), 400);
      EXPECT_FALSE(reader.failure_message().empty());
    } else if (progress == Progress::kDone) {
      EXPECT_LE(reader.TakeRequest().body.size(), kMaxBody);
    }
  }
  EXPECT_GT(failed, 500u);
}

}  // namespace
}  // namespace ashlar::net
