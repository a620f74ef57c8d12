// A way to send requests and hear the answers: HttpClient, or a test's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "load/answer_meter.h"

namespace ashlar::load {

struct HttpCall {
  std::string_view method = "POST";
  std::string path;  // below the server's root
  std::string body;
};

// Hears of one answer. It is destroyed behind its OnEnd, or without one when the transport ends.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void OnHead(int status) = 0;
  // A failure ends the exchange; OnEnd gets it.
  virtual std::optional<Failure> OnBody(std::string_view bytes) = 0;
  // Once, last. Without a failure the body was whole.
  virtual void OnEnd(std::optional<Failure> failure) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Never calls the sink before it returns.
  virtual void Send(HttpCall call, std::unique_ptr<ReplySink> sink) = 0;
};

}  // namespace ashlar::load
