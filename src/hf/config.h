// config.json in GGUF's words: what src/model and src/plan ask of a model's metadata.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hf/builder.h"
#include "hf/family.h"
#include "hf/json.h"

namespace ashlar::hf {

inline constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;

// The fields of a config.json; those of its text_config, where it has one, come first.
class Config {
 public:
  // `json` must outlive it.
  explicit Config(const Json& json);

  std::optional<Element> Find(std::string_view name) const;
  // The first of these names that is there. Errors: kCorrupt naming the field and its value.
  using Names = std::initializer_list<std::string_view>;
  Result<std::optional<std::uint64_t>> Count(Names names) const;
  Result<std::optional<double>> Number(Names names) const;
  Result<std::optional<bool>> Flag(std::string_view name) const;
  Result<std::optional<std::string_view>> Text(Names names) const;

  // "'file': field "name" is VALUE; RIGHT"
  Error Wrong(std::string_view name, std::string_view right,
              ErrorCode code = ErrorCode::kUnsupported) const;
  Error Missing(std::string_view name) const;

  const std::string& where() const { return where_; }

 private:
  std::string where_;
  Object outer_;
  std::optional<Object> inner_;
};

// The family that model_type names. Errors: kUnsupported, listing those we read.
Result<const Family*> FamilyOf(const Config& config);

// Writes all keys of the architecture, and tensors that GGUF has where config.json has numbers
// (divisors of rotary angles). Errors: kCorrupt and kUnsupported, naming the field and its value.
Status ReadConfig(const Config& config, const Family& family, Builder& builder);

}  // namespace ashlar::hf
