#include "server/doorkeeper.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/testing/captured_answer.h"

namespace ashlar::server {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

ApiKeys TwoKeys() {
  auto keys = ApiKeys::Parse("owner-0123456789ab\nacme:tenant-0123456789");
  return *std::move(keys);
}

net::HttpRequest Request(std::string method, Headers headers) {
  return {.method = std::move(method),
          .path = "/p",
          .query = {},
          .headers = std::move(headers),
          .body = {}};
}

// "name" of who may, or the status of the refusal.
std::string Asked(const Doorkeeper& doorkeeper, Access access, std::string authorization) {
  Headers headers;
  if (!authorization.empty()) {
    headers.emplace_back("authorization", std::move(authorization));
  }
  const auto caller = doorkeeper.Check(Request("POST", headers), access);
  return caller.ok() ? "as " + (*caller)->name : std::to_string(caller.error().status);
}

std::string HeaderAfterCors(const Doorkeeper& doorkeeper, const std::string& origin,
                            const std::string& name) {
  const auto answer = testing::CapturedAnswer::Create();
  const net::Responder responder = answer->TakeResponder();
  doorkeeper.AddCorsHeaders(Request("GET", {{"origin", origin}}), responder);
  responder.Send({});
  EXPECT_TRUE(answer->Wait());
  return answer->Header(name);
}

TEST(Doorkeeper, WithoutKeysEverybodyIsTheOwner) {
  const Doorkeeper doorkeeper;
  EXPECT_EQ(Asked(doorkeeper, Access::kAdmin, ""), "as ");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, "Bearer whatever"), "as ");
}

TEST(Doorkeeper, KeysOpenWhatTheyMay) {
  const Doorkeeper doorkeeper(TwoKeys());
  EXPECT_EQ(Asked(doorkeeper, Access::kAnybody, ""), "as ");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, ""), "401");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, "Bearer wrong-0123456789"), "401");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, "Bearer "), "401");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, "Basic tenant-0123456789"), "401");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, "tenant-0123456789"), "401");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, "Bearer tenant-0123456789"), "as acme");
  EXPECT_EQ(Asked(doorkeeper, Access::kTenant, "bearer  tenant-0123456789"), "as acme");
  EXPECT_EQ(Asked(doorkeeper, Access::kAdmin, "Bearer tenant-0123456789"), "403");
  EXPECT_EQ(Asked(doorkeeper, Access::kAdmin, "Bearer owner-0123456789ab"), "as ");
}

TEST(Doorkeeper, PagesOfOtherSitesMayNotPost) {
  const auto post = [](const Doorkeeper& doorkeeper, Headers headers) {
    return doorkeeper.Check(Request("POST", std::move(headers)), Access::kTenant).ok();
  };
  const Doorkeeper closed;
  EXPECT_TRUE(post(closed, {{"host", "127.0.0.1:8080"}}));  // no browser
  EXPECT_TRUE(post(closed, {{"host", "h:1"}, {"origin", "http://h:1"}}));
  EXPECT_FALSE(post(closed, {{"host", "h:1"}, {"origin", "http://h:2"}}));
  EXPECT_FALSE(post(closed, {{"host", "h:1"}, {"origin", "https://evil.example"}}));
  EXPECT_FALSE(post(closed, {{"host", "h:1"}, {"origin", "null"}}));
  EXPECT_TRUE(closed
                  .Check(Request("GET", {{"host", "h"}, {"origin", "https://evil.example"}}),
                         Access::kTenant)
                  .ok());  // which the page cannot read
  const Doorkeeper open({}, {.cors_origins = {"https://chat.example"}});
  EXPECT_TRUE(post(open, {{"host", "h:1"}, {"origin", "https://chat.example"}}));
  EXPECT_FALSE(post(open, {{"host", "h:1"}, {"origin", "https://chat.example.evil"}}));
  EXPECT_TRUE(post(Doorkeeper({}, {.cors_origins = {"*"}}),
                   {{"host", "h:1"}, {"origin", "https://any.example"}}));
}

Doorkeeper AnsweringTo(std::vector<std::string> hosts) {
  return Doorkeeper({}, {.hosts = std::move(hosts)});
}

// A page of http://a.example:80 whose name now leads to 127.0.0.1: of the server's own origin for
// the browser.
TEST(Doorkeeper, ANameThatLeadsHereByItselfIsRefused) {
  const Doorkeeper closed = AnsweringTo({});
  const auto caller =
      closed.Check(Request("POST", {{"host", "a.example:80"}, {"origin", "http://a.example:80"}}),
                   Access::kAnybody);
  ASSERT_FALSE(caller.ok());
  EXPECT_EQ(caller.error().status, 403);
  EXPECT_EQ(caller.error().code, "host_not_allowed");
  EXPECT_NE(caller.error().message.find("--allowed-host a.example"), std::string::npos);
}

TEST(Doorkeeper, AddressesAndLocalhostAreAnsweredAndNamesThatAreAllowed) {
  const auto get = [](const Doorkeeper& doorkeeper, const std::string& host) {
    const auto caller = doorkeeper.Check(Request("GET", {{"host", host}}), Access::kAnybody);
    return caller.ok() ? 200 : caller.error().status;
  };
  const Doorkeeper closed = AnsweringTo({});
  const Doorkeeper named = AnsweringTo({"gpu-box", "Chat.Example"});
  const std::vector<std::string> always = {
      "localhost",      "localhost:8080", "LocalHost:1", "localhost.:80", "chat.localhost:1",
      "127.0.0.1:8080", "127.0.0.2",      "[::1]:8080",  "[::1]",         ""};
  const std::vector<std::string> sometimes = {"gpu-box:8080", "gpu-box", "chat.example",
                                              "CHAT.example.:1"};
  const std::vector<std::string> never = {
      "a.example:8080",      "localhost.a.example", "notlocalhost",
      "127.0.0.1.a.example", "a.localhos",          "1.2.3.4a",
      "gpu-box.a.example",   "a.chat.example",      "box.local"};
  for (const std::string& host : always) {
    EXPECT_EQ(get(closed, host), 200) << host;
    EXPECT_EQ(get(named, host), 200) << host;
  }
  for (const std::string& host : sometimes) {
    EXPECT_EQ(get(closed, host), 403) << host;
    EXPECT_EQ(get(named, host), 200) << host;
  }
  for (const std::string& host : never) {
    EXPECT_EQ(get(closed, host), 403) << host;
    EXPECT_EQ(get(named, host), 403) << host;
    EXPECT_EQ(get(Doorkeeper(), host), 200) << host;
  }
}

TEST(Doorkeeper, AnswersAreReadableForPagesOfAllowedOrigins) {
  constexpr auto kAllow = "Access-Control-Allow-Origin";
  EXPECT_EQ(HeaderAfterCors(Doorkeeper(), "https://a.example", kAllow), "");
  EXPECT_EQ(HeaderAfterCors(Doorkeeper(), "https://a.example", "Vary"), "");
  const Doorkeeper one({}, {.cors_origins = {"https://a.example"}});
  EXPECT_EQ(HeaderAfterCors(one, "https://a.example", kAllow), "https://a.example");
  EXPECT_EQ(HeaderAfterCors(one, "https://b.example", kAllow), "");
  EXPECT_EQ(HeaderAfterCors(one, "https://b.example", "Vary"), "Origin");
  EXPECT_EQ(HeaderAfterCors(Doorkeeper({}, {.cors_origins = {"*"}}), "https://b.example", kAllow),
            "https://b.example");
}

TEST(Doorkeeper, PreflightsOfAllowedOriginsAreAnsweredWithoutAKey) {
  const Doorkeeper doorkeeper(TwoKeys(), {.cors_origins = {"https://a.example"}});
  const Headers asked = {{"origin", "https://a.example"},
                         {"access-control-request-method", "POST"},
                         {"access-control-request-headers", "authorization,content-type"}};
  const auto response = doorkeeper.Preflight(Request("OPTIONS", asked), "POST, OPTIONS");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 204);
  const Headers want = {{"Access-Control-Allow-Methods", "POST, OPTIONS"},
                        {"Access-Control-Max-Age", "600"},
                        {"Access-Control-Allow-Headers", "authorization,content-type"}};
  EXPECT_EQ(response->headers, want);
  EXPECT_FALSE(doorkeeper.Preflight(Request("POST", asked), "POST").has_value());
  EXPECT_FALSE(doorkeeper.Preflight(Request("OPTIONS", {{"origin", "https://a.example"}}), "POST")
                   .has_value());
  EXPECT_FALSE(doorkeeper
                   .Preflight(Request("OPTIONS", {{"origin", "https://b.example"},
                                                  {"access-control-request-method", "POST"}}),
                              "POST")
                   .has_value());
}

}  // namespace
}  // namespace ashlar::server
