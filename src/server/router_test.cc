#include "server/router.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/testing/captured_answer.h"

namespace ashlar::server {
namespace {

using testing::CapturedAnswer;

struct Ended {
  std::string id;
  std::string route;
  int status;
  std::int64_t duration_ns;
  bool client_left;
};

class Observer final : public RequestObserver {
 public:
  void OnRequestEnd(const RequestRecord& record, std::int64_t duration_ns) override {
    ended.push_back(
        {record.id, std::string(record.route), record.status, duration_ns, record.client_left});
  }
  std::vector<Ended> ended;
};

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    router_.Add({.method = "GET",
                 .path = "/things/{id}",
                 .handle = [this](const net::HttpRequest& request, const Reply& reply) {
                   net::HttpResponse response;
                   response.body = router_.routes()[0].RestOf(request.path);
                   reply.Send(response);
                 }});
    router_.Add({.method = "POST",
                 .path = "/held",
                 .handle = [this](const net::HttpRequest&, const Reply& reply) {
                   reply.OnClientGone([this] { ++gone_; });
                   held_.push_back(reply);
                 }});
    router_.Add({.method = "GET",
                 .path = "/held",
                 .handle = [](const net::HttpRequest&, const Reply& reply) { reply.Send({}); }});
  }

  std::shared_ptr<CapturedAnswer> Ask(std::string method, std::string path,
                                      const std::string& id = {}) {
    auto answer = CapturedAnswer::Create();
    net::HttpRequest request{.method = std::move(method), .path = std::move(path)};
    if (!id.empty()) request.headers.emplace_back("x-request-id", id);
    router_.Handle(std::move(request), answer->TakeResponder());
    return answer;
  }

  std::string IdGivenFor(const std::string& id) {
    const auto answer = Ask("GET", "/held", id);
    EXPECT_TRUE(answer->Wait());
    return answer->Header("X-Request-Id");
  }

  ManualClock clock_;
  std::shared_ptr<Observer> observer_ = std::make_shared<Observer>();
  Router router_{clock_, observer_};
  std::vector<Reply> held_;
  int gone_ = 0;
};

TEST_F(RouterTest, ARestOfThePathIsDecoded) {
  const auto answer = Ask("GET", "/things/a%2Fb%zz");
  ASSERT_TRUE(answer->Wait());
  EXPECT_EQ(answer->body(), "a/b%zz");
  ASSERT_EQ(observer_->ended.size(), 1u);
  EXPECT_EQ(observer_->ended[0].route, "/things/{id}");
}

TEST_F(RouterTest, MethodsOfAPathAreListedTogether) {
  const auto wrong = Ask("DELETE", "/held");
  ASSERT_TRUE(wrong->Wait());
  EXPECT_EQ(wrong->status(), 405);
  EXPECT_EQ(wrong->Header("Allow"), "POST, GET, HEAD, OPTIONS");
  const auto options = Ask("OPTIONS", "/held");
  ASSERT_TRUE(options->Wait());
  EXPECT_EQ(options->status(), 204);
  const auto head = Ask("HEAD", "/held");
  ASSERT_TRUE(head->Wait());
  EXPECT_EQ(head->status(), 200);
  const auto unknown = Ask("GET", "/held/not");
  ASSERT_TRUE(unknown->Wait());
  EXPECT_EQ(unknown->status(), 404);
  EXPECT_EQ(observer_->ended.back().route, "other");
}

TEST_F(RouterTest, ARequestIdIsTakenWhenItIsAShortWordAndMadeOtherwise) {
  const std::string longest(kMaxRequestIdBytes, 'x');
  EXPECT_EQ(IdGivenFor("Job-7_a.b:c"), "Job-7_a.b:c");
  EXPECT_EQ(IdGivenFor(longest), longest);
  const std::string made = IdGivenFor("");
  EXPECT_TRUE(made.starts_with("req-")) << made;
  EXPECT_NE(IdGivenFor(""), made);
  for (const std::string& bad : {longest + "x", std::string("two words"), std::string("a\"b"),
                                 std::string("a\nb"), std::string("\xC3\xA9")}) {
    EXPECT_TRUE(IdGivenFor(bad).starts_with("req-")) << bad;
  }
}

TEST_F(RouterTest, ARequestIsOverWhenItsLastReplyGoes) {
  const auto answer = Ask("POST", "/held", "one");
  clock_.AdvanceNs(5);
  held_[0].Send({.status = 201});
  held_.push_back(held_[0]);
  held_.erase(held_.begin());
  EXPECT_TRUE(observer_->ended.empty());
  clock_.AdvanceNs(2);
  held_.clear();
  ASSERT_EQ(observer_->ended.size(), 1u);
  EXPECT_EQ(observer_->ended[0].id, "one");
  EXPECT_EQ(observer_->ended[0].status, 201);
  EXPECT_EQ(observer_->ended[0].duration_ns, 7);
  EXPECT_FALSE(observer_->ended[0].client_left);
}

TEST_F(RouterTest, AClientThatLeavesIsRemembered) {
  const auto answer = Ask("POST", "/held");
  answer->Leave();
  EXPECT_EQ(gone_, 1);
  held_.clear();
  ASSERT_EQ(observer_->ended.size(), 1u);
  EXPECT_TRUE(observer_->ended[0].client_left);
  EXPECT_EQ(observer_->ended[0].status, 0);
}

TEST_F(RouterTest, WhoMayNotAskIsRefusedByTheHead) {
  auto keys = ApiKeys::Parse("key-0123456789abcdef");
  Router router(clock_, nullptr,
                Doorkeeper(*std::move(keys), {.hosts = std::vector<std::string>()}));
  router.Add({.method = "POST", .path = "/p", .handle = {}});
  router.Add({.method = "POST", .path = "/open", .access = Access::kAnybody, .handle = {}});
  const auto status = [&](std::string path, std::string key, std::string host = "localhost") {
    const auto refusal = router.RefuseHead(
        {.method = "POST",
         .path = std::move(path),
         .query = {},
         .headers = {{"authorization", "Bearer " + key}, {"host", std::move(host)}},
         .body = {}});
    return refusal.has_value() ? refusal->status : 0;
  };
  EXPECT_EQ(status("/p", "key-0123456789abcdef"), 0);
  EXPECT_EQ(status("/p", "key-0123456789abcdee"), 401);
  EXPECT_EQ(status("/open", ""), 0);
  EXPECT_EQ(status("/open", "", "a.example"), 403);
}

}  // namespace
}  // namespace ashlar::server
