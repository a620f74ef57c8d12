#include "load/sse_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace ashlar::load {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kLimit = 1000;

std::vector<std::string> Drain(SseParser& parser) {
  std::vector<std::string> events;
  while (auto event = parser.Next()) events.push_back(*std::move(event));
  return events;
}

std::vector<std::string> EventsOf(std::string_view bytes) {
  SseParser parser(kLimit);
  EXPECT_TRUE(parser.Feed(bytes));
  parser.End();
  return Drain(parser);
}

// All that peers send: names of events, comments, CR LF, CR, no space, several data lines.
constexpr std::string_view kDialects =
    "\xEF\xBB\xBF"
    "data: {\"a\":1}\n\n"
    ": ping\n\n"
    "event: message\r\ndata:{\"b\":2}\r\nid: 7\r\n\r\n"
    "data: one\rdata:two\r\r"
    "retry: 100\n\n"
    "data\n\n"
    "error: {\"code\":500}\n\n"
    "data: [DONE]\n\n";

TEST(SseParser, ReadsTheDialectsOfServers) {
  EXPECT_THAT(EventsOf(kDialects),
              ElementsAre("{\"a\":1}", "{\"b\":2}", "one\ntwo", "", "{\"code\":500}", "[DONE]"));
}

TEST(SseParser, AnyCutIntoTwoOrThreePiecesGivesTheSameEvents) {
  const auto whole = EventsOf(kDialects);
  for (std::size_t i = 0; i <= kDialects.size(); ++i) {
    for (std::size_t j = i; j <= kDialects.size(); ++j) {
      SseParser parser(kLimit);
      parser.Feed(kDialects.substr(0, i));
      parser.Feed(kDialects.substr(i, j - i));
      parser.Feed(kDialects.substr(j));
      parser.End();
      ASSERT_EQ(Drain(parser), whole) << i << " " << j;
    }
  }
}

TEST(SseParser, ByteByByteEveryEventIsThereAsSoonAsItIsWhole) {
  SseParser parser(kLimit);
  for (const char c : std::string_view("data: x\n")) parser.Feed({&c, 1});
  EXPECT_THAT(Drain(parser), IsEmpty());
  parser.Feed("\n");
  EXPECT_THAT(Drain(parser), ElementsAre("x"));
  // The LF of a CR LF may come later, and is no line of its own.
  parser.Feed("data: y\r\n\r");
  EXPECT_THAT(Drain(parser), ElementsAre("y"));
  parser.Feed("\ndata: z\n\n");
  EXPECT_THAT(Drain(parser), ElementsAre("z"));
}

TEST(SseParser, ALastEventWithoutABlankLineCountsAtTheEnd) {
  EXPECT_THAT(EventsOf("data: x\n\ndata: [DONE]"), ElementsAre("x", "[DONE]"));
  EXPECT_THAT(EventsOf("data: x\n"), ElementsAre("x"));
  EXPECT_THAT(EventsOf(""), IsEmpty());
}

TEST(SseParser, ALineOrEventThatIsTooLongIsRefusedAndNotKept) {
  const std::string most(kLimit - 6, 'x');
  EXPECT_THAT(EventsOf("data: " + most + "\n\n"), ElementsAre(most));
  SseParser line(kLimit);
  EXPECT_FALSE(line.Feed("data: " + most + "xy\n\n"));
  EXPECT_FALSE(line.Feed("data: x\n\n"));
  EXPECT_THAT(Drain(line), IsEmpty());
  // Many lines of one event.
  SseParser event(kLimit);
  bool is_fine = true;
  for (int i = 0; i < 300 && is_fine; ++i) is_fine = event.Feed("data: xxxx\n");
  EXPECT_FALSE(is_fine);
  // A comment without an end.
  SseParser comment(kLimit);
  EXPECT_FALSE(comment.Feed(":" + std::string(kLimit, ' ')));
}

TEST(SseParser, RandomBytesNeverStopIt) {
  constexpr std::string_view kAlphabet = "data: error:\n\r\n\r[]{}x\0\xFF";
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::string bytes;
    for (std::uint64_t i = 0; i < 200; ++i) {
      bytes += kAlphabet[RandomBits(seed, 0, i) % kAlphabet.size()];
    }
    const auto whole = EventsOf(bytes);
    SseParser parser(kLimit);
    for (const char c : bytes) parser.Feed({&c, 1});
    parser.End();
    ASSERT_EQ(Drain(parser), whole) << seed;
  }
}

}  // namespace
}  // namespace ashlar::load
