#include "load/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ashlar::load {
namespace {

std::string Shown(const char* url) {
  const auto target = ParseTarget(url);
  if (!target.ok()) return target.error().message;
  return fmt::format("{} {} {} '{}'", target->is_tls ? "tls" : "plain", target->host, target->port,
                     target->root);
}

TEST(Target, ReadsUrlsAsPeopleWriteThem) {
  EXPECT_EQ(Shown("http://127.0.0.1:8080"), "plain 127.0.0.1 8080 ''");
  EXPECT_EQ(Shown("http://127.0.0.1:8080/v1/"), "plain 127.0.0.1 8080 ''");
  EXPECT_EQ(Shown("localhost:8000"), "plain localhost 8000 ''");
  EXPECT_EQ(Shown("http://host"), "plain host 80 ''");
  EXPECT_EQ(Shown("https://host/api/v1"), "tls host 443 '/api'");
  EXPECT_EQ(Shown("https://host:8443/a/b//"), "tls host 8443 '/a/b'");
  EXPECT_EQ(Shown("http://[::1]:9/v1"), "plain ::1 9 ''");
  EXPECT_EQ(ParseTarget("http://[::1]:9")->authority(), "[::1]:9");
  EXPECT_EQ(ParseTarget("host")->authority(), "host:80");
}

TEST(Target, RefusesWhatIsNoUrlAndNamesIt) {
  for (const char* url : {"", "http://", "ftp://host", "http://host:0", "http://host:65536",
                          "http://host:80x", "http://[::1", "http://[::1]x", "http://a b",
                          "http://u@host", "http://host/?q=1", "http://host:"}) {
    EXPECT_THAT(Shown(url), testing::StartsWith("the URL '" + std::string(url) + "' ")) << url;
  }
  EXPECT_FALSE(ParseTarget(std::string(3000, 'x')).ok());
}

}  // namespace
}  // namespace ashlar::load
