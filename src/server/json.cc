#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ashlar::server {
namespace {

// Builds the document from the parser's events. Objects are filled without looking for the key
// (ordered objects look linearly, which a hostile body turns into quadratic time); a key given
// twice is found by sorting when the object ends.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return Add(Json()); }
  bool boolean(bool value) { return Add(Json(value)); }
  bool number_integer(Json::number_integer_t value) { return Add(Json(value)); }
  bool number_unsigned(Json::number_unsigned_t value) { return Add(Json(value)); }
  bool number_float(Json::number_float_t value, const std::string&) { return Add(Json(value)); }
  bool string(std::string& value) { return Add(Json(std::move(value))); }
  bool binary(Json::binary_t&) { return Fail("binary values are not JSON"); }

  bool start_object(std::size_t) { return Open(Json::object()); }
  bool start_array(std::size_t) { return Open(Json::array()); }
  bool key(std::string& name) {
    open_.back().key = std::move(name);
    return true;
  }

  bool end_object() {
    std::vector<std::string_view> keys;
    const auto& entries = open_.back().value.get_ref<const Json::object_t&>();
    keys.reserve(entries.size());
    for (const auto& [name, value] : entries) {
      keys.push_back(name);
    }
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) {
      const std::string name(*twice);
      open_.back().key = name;
      return Fail(fmt::format("the key '{}' is given twice", name));
    }
    return Close();
  }
  bool end_array() { return Close(); }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) {
    constexpr int kNumberOutOfRange = 406;  // of nlohmann's out_of_range
    if (error.id == kNumberOutOfRange) {
      return Fail(fmt::format("the number {} is out of range", token));
    }
    return Fail(fmt::format("the request body is not valid JSON at byte {}", position));
  }

  Json& document() { return document_; }
  const std::string& error() const { return error_; }

  // "messages[0].content": where the parser is, and so where an error is.
  std::string Path() const {
    std::string path;
    for (const Container& container : open_) {
      if (container.value.is_array()) {
        path += fmt::format("[{}]", container.value.size());
      } else if (!container.key.empty()) {
        path += (path.empty() ? "" : ".") + container.key;
      }
    }
    constexpr std::size_t kMaxPathBytes = 200;
    return path.substr(0, kMaxPathBytes);
  }

 private:
  struct Container {
    Json value;
    std::string key;  // of an object: the entry being read
  };

  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  bool Count() {
    if (++values_ > limits_.max_values) {
      return Fail(fmt::format("the request body has more than {} values", limits_.max_values));
    }
    return true;
  }

  bool Open(Json container) {
    if (open_.size() >= limits_.max_depth) {
      return Fail(
          fmt::format("the request body is nested deeper than {} levels", limits_.max_depth));
    }
    open_.push_back({.value = std::move(container), .key = {}});
    return Count();
  }

  bool Close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    Place(std::move(value));
    return true;
  }

  bool Add(Json value) {
    Place(std::move(value));
    return Count();
  }

  void Place(Json value) {
    if (open_.empty()) {
      document_ = std::move(value);
      return;
    }
    Container& parent = open_.back();
    if (parent.value.is_array()) {
      parent.value.get_ref<Json::array_t&>().push_back(std::move(value));
    } else {
      // ordered_map is a vector of entries; this is its own append.
      // The key stays, to say where the parser is.
      parent.value.get_ref<Json::object_t&>().push_back({parent.key, std::move(value)});
    }
  }

  const JsonLimits limits_;
  Json document_;
  std::vector<Container> open_;
  std::size_t values_ = 0;
  std::string error_;
};

}  // namespace

ApiResult<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return ApiError{.message = "the request has no body; send a JSON object"};
  }
  DocumentBuilder builder(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return ApiError{.message = builder.error(), .param = builder.Path()};
  }
  return std::move(builder.document());
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ashlar::server
