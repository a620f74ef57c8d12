// JSON from outside: parsed whole (simdjson), nesting and size bounded, asked field by field.
// Errors name the file, the field and its value.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::hf {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

// A document and what its elements point into.
class Json {
 public:
  // `name` stands for the document in errors. Errors: kCorrupt: no JSON, nested deeper than 64, or
  // the outermost value is no object.
  static Result<Json> Parse(std::string_view text, std::string name);
  // Errors: also kNotFound, kIo; kUnsupported: more than `most_bytes`.
  static Result<Json> Read(const std::string& path, std::uint64_t most_bytes);

  const std::string& name() const { return name_; }
  Object root() const { return root_; }

 private:
  Json() = default;

  std::string name_;
  std::unique_ptr<simdjson::dom::parser> parser_;
  Object root_;
};

// A value as it stands in errors: short and printable.
std::string Shown(const Element& value);

// As a type, or nothing when it is of another.
std::optional<std::string_view> TextIn(const Element& value);
std::optional<std::uint64_t> CountIn(const Element& value);
std::optional<double> NumberIn(const Element& value);
std::optional<bool> FlagIn(const Element& value);
std::optional<Array> ArrayIn(const Element& value);
std::optional<Object> ObjectIn(const Element& value);
bool IsNull(const Element& value);

// The first field of that name; nothing when there is none or it is null.
std::optional<Element> FieldOf(const Object& object, std::string_view name);

}  // namespace ashlar::hf
