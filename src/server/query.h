// The part of a request target behind '?': named values, each asked for by type. Like a JSON body's
// fields, whatever is wrong is an error that names it; unknown names are errors too, for a misspelt
// "force" must not be taken for none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"

namespace ashlar::server {

class Query {
 public:
  static constexpr std::size_t kMaxParameters = 32;

  // Errors (400): more than kMaxParameters, a name given twice, one that is not among `known`.
  static ApiResult<Query> Parse(std::string_view text,
                                std::initializer_list<std::string_view> known);

  // Percent-decoded; nullopt when it is not there.
  std::optional<std::string_view> Text(std::string_view name) const;
  // "true", "1" and a name alone are true; "false" and "0" are not; nor is a name that is not
  // there.
  ApiResult<bool> Flag(std::string_view name) const;
  // A whole number from `least` to `most`.
  ApiResult<std::optional<std::uint64_t>> Number(std::string_view name, std::uint64_t least,
                                                 std::uint64_t most) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace ashlar::server
