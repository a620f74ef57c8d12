// Where a server is: "http://host:port", "https://host/some/path/v1", "host:port".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::load {

struct Target {
  bool is_tls = false;
  std::string host;  // without the brackets of an IPv6 address
  std::uint16_t port = 0;
  std::string root;  // what stands before "/v1" and "/tokenize" in every path: "" or "/some/path"

  // As the Host header names it.
  std::string authority() const;
};

// Error: kInvalidArgument.
Result<Target> ParseTarget(std::string_view url);

}  // namespace ashlar::load
