// Typed fields of a JSON object from outside, each under any of the names it has in the wild.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ashlar::plan {

using Json = nlohmann::json;

// Errors: kCorrupt with the byte, for what is no JSON or is nested deeper than any config is.
Result<Json> ParseJson(std::string_view text);

// The names of one field, the usual one first. A field that is null counts as missing.
using Names = std::span<const std::string_view>;

struct Limits {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

class ConfigFields {
 public:
  // `object` must outlive the fields. `where` begins every message.
  ConfigFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(Names names) const { return Find(names).value != nullptr; }

  // Whole numbers within limits. Errors: kCorrupt naming the field as it stands there, its value
  // and what is allowed; kCorrupt naming the usual name of one that is missing and has no fallback.
  Result<std::uint64_t> Count(Names names, Limits limits,
                              std::optional<std::uint64_t> fallback = std::nullopt) const;
  Result<std::uint32_t> Count32(Names names, Limits limits,
                                std::optional<std::uint32_t> fallback = std::nullopt) const;
  Result<bool> Flag(Names names, bool fallback) const;
  // "" when it is missing.
  Result<std::string> Text(Names names) const;

  // One number for all layers, or a list of `layers` of them.
  Result<std::vector<std::uint32_t>> CountByLayer(
      Names names, Limits limits, std::size_t layers,
      std::optional<std::uint32_t> fallback = std::nullopt) const;
  // A list of `layers` words; empty when it is missing.
  Result<std::vector<std::string>> WordsByLayer(Names names, std::size_t layers) const;

  // "'file': field "name" is VALUE; RIGHT". For a value that a caller found wrong.
  Error Wrong(Names names, std::string_view right) const;

  const std::string& where() const { return where_; }

 private:
  struct Found {
    std::string_view name;
    const Json* value = nullptr;
  };
  Found Find(Names names) const;
  Error Bad(const Found& found, std::string_view right) const;
  Error Missing(Names names) const;
  Result<std::uint64_t> CountOf(const Found& found, const Json& value, Limits limits) const;

  const Json& object_;
  std::string where_;
};

}  // namespace ashlar::plan
