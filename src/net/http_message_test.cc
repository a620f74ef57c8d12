#include "net/http_message.h"

#include <gtest/gtest.h>

#include <string>

namespace ashlar::net {
namespace {

TEST(FormatHead, AValueCannotAddAHeaderOrAnAnswer) {
  HttpResponse response;
  response.headers = {{"X-Echo", "a\r\nSet-Cookie: b\r\n\r\nHTTP/1.1 200 OK"}};
  const std::string head =
      FormatHead(response, {.keep_alive = true, .is_chunked = false, .content_length = 0});
  EXPECT_EQ(head.find("\r\nSet-Cookie"), std::string::npos);
  EXPECT_EQ(head.find("\r\n\r\n"), head.size() - 4);
  EXPECT_NE(head.find("X-Echo: a  Set-Cookie: b    HTTP/1.1 200 OK\r\n"), std::string::npos);
}

TEST(FormatHead, StatesOneFraming) {
  HttpResponse response;
  const std::string fixed =
      FormatHead(response, {.keep_alive = true, .is_chunked = false, .content_length = 12});
  EXPECT_TRUE(fixed.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(fixed.find("Content-Length: 12\r\n"), std::string::npos);
  EXPECT_EQ(fixed.find("Transfer-Encoding"), std::string::npos);
  const std::string chunked =
      FormatHead(response, {.keep_alive = false, .is_chunked = true, .content_length = {}});
  EXPECT_NE(chunked.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(chunked.find("Content-Length"), std::string::npos);
  EXPECT_NE(chunked.find("Connection: close\r\n"), std::string::npos);
}

TEST(AppendChunk, FramesInHexAndNeverEndsTheStream) {
  std::string out;
  AppendChunk("", out);
  EXPECT_EQ(out, "");
  AppendChunk(std::string(26, 'a'), out);
  EXPECT_EQ(out, "1a\r\n" + std::string(26, 'a') + "\r\n");
}

TEST(SplitTarget, KnowsTheThreeForms) {
  std::string path;
  std::string query;
  ASSERT_TRUE(SplitTarget("/a/b?c=d?e", path, query));
  EXPECT_EQ(path, "/a/b");
  EXPECT_EQ(query, "c=d?e");
  ASSERT_TRUE(SplitTarget("http://host:80/x", path, query));
  EXPECT_EQ(path, "/x");
  EXPECT_EQ(query, "");
  ASSERT_TRUE(SplitTarget("http://host?q", path, query));
  EXPECT_EQ(path, "/");
  EXPECT_EQ(query, "q");
  ASSERT_TRUE(SplitTarget("https://host", path, query));
  EXPECT_EQ(path, "/");
  ASSERT_TRUE(SplitTarget("*", path, query));
  EXPECT_FALSE(SplitTarget("host:80", path, query));
  EXPECT_FALSE(SplitTarget("", path, query));
}

TEST(ErrorResponse, TakesTheShapeTheServerWasGiven) {
  HttpServerOptions options;
  EXPECT_EQ(ErrorResponse(options, 413, "too long").body, "413 Content Too Large: too long\n");
  options.format_error = [](int status, std::string_view message) {
    HttpResponse response;
    response.body = std::to_string(status) + "|" + std::string(message);
    return response;
  };
  const HttpResponse shaped = ErrorResponse(options, 503, "full");
  EXPECT_EQ(shaped.body, "503|full");
  EXPECT_EQ(shaped.status, 503);
  ASSERT_EQ(shaped.headers.size(), 1u);
  EXPECT_EQ(shaped.headers[0].first, "Retry-After");
}

}  // namespace
}  // namespace ashlar::net
