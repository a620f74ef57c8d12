#include "server/testing/captured_answer.h"

#include <chrono>
#include <utility>

#include "base/check.h"

namespace ashlar::server::testing {

// Only a test that fails waits for it.
constexpr auto kPatience = std::chrono::seconds(20);

std::shared_ptr<CapturedAnswer> CapturedAnswer::Create(const net::AnswerOptions& options) {
  auto answer = std::make_shared<CapturedAnswer>();
  answer->exchange_ = std::make_shared<net::Exchange>(answer, options);
  net::HttpResponse fallback;
  fallback.status = 500;
  fallback.body = "dropped";
  answer->responder_.emplace(
      std::make_shared<net::Responder::Impl>(answer->exchange_, std::move(fallback)));
  return answer;
}

net::Responder CapturedAnswer::TakeResponder() {
  net::Responder responder = *std::move(responder_);
  responder_.reset();
  return responder;
}

void CapturedAnswer::ScheduleFlush() {
  const std::lock_guard lock(mutex_);
  is_flush_due_ = true;
  flush_.notify_all();
}

bool CapturedAnswer::Receive() {
  {
    std::unique_lock lock(mutex_);
    if (!flush_.wait_for(lock, kPatience, [this] { return is_flush_due_; })) {
      return false;
    }
    is_flush_due_ = false;
  }
  const net::Exchange::Output output = exchange_->TakeOutput();
  exchange_->MarkSent(output.bytes.size());
  bytes_ += output.bytes;
  is_complete_ = output.is_last || output.is_cut;
  is_cut_ = output.is_cut;
  return true;
}

bool CapturedAnswer::Wait() {
  while (!is_complete_) {
    if (!Receive()) {
      return false;
    }
  }
  return true;
}

bool CapturedAnswer::WaitFor(std::string_view text) {
  while (body().find(text) == std::string::npos) {
    if (is_complete_ || !Receive()) {
      return false;
    }
  }
  return true;
}

int CapturedAnswer::status() const {
  return bytes_.size() < 12 ? 0 : std::stoi(bytes_.substr(9, 3));
}

std::string CapturedAnswer::Header(std::string_view name) const {
  const std::string line = "\r\n" + std::string(name) + ": ";
  const std::size_t at = bytes_.find(line);
  if (at == std::string::npos || at > bytes_.find("\r\n\r\n")) {
    return {};
  }
  const std::size_t begin = at + line.size();
  return bytes_.substr(begin, bytes_.find("\r\n", begin) - begin);
}

std::string CapturedAnswer::body() const {
  const std::size_t head = bytes_.find("\r\n\r\n");
  if (head == std::string::npos) {
    return {};
  }
  std::string rest = bytes_.substr(head + 4);
  if (Header("Transfer-Encoding").empty()) {
    return rest;
  }
  std::string body;
  for (std::size_t at = 0; at < rest.size();) {
    const std::size_t line = rest.find("\r\n", at);
    ASHLAR_CHECK(line != std::string::npos);
    const std::size_t size = std::stoul(rest.substr(at, line - at), nullptr, 16);
    body += rest.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  return body;
}

Json CapturedAnswer::json() const {
  auto parsed = ParseJson(body());
  ASHLAR_CHECK(parsed.ok(), "the body is not JSON: {}", body());
  return *std::move(parsed);
}

std::vector<Json> CapturedAnswer::events() const {
  std::vector<Json> events;
  const std::string all = body();
  constexpr std::string_view kData = "data: ";
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = all.find("\n\n", at);
    ASHLAR_CHECK(end != std::string::npos && all.compare(at, kData.size(), kData) == 0, "{}", all);
    const std::string data = all.substr(at + kData.size(), end - at - kData.size());
    if (data != "[DONE]") {
      auto parsed = ParseJson(data);
      ASHLAR_CHECK(parsed.ok(), "not JSON: {}", data);
      events.push_back(*std::move(parsed));
    }
    at = end + 2;
  }
  return events;
}

}  // namespace ashlar::server::testing
