// The values a template computes with, with the meaning Python gives them: None, bool, int, float,
// str, list, tuple, dict, jinja2's Undefined, and objects (ranges, iterators, macros, namespaces,
// loops).
//
// A Value is a small handle; strings, lists and dicts are immutable and shared. What can change
// (namespaces, loops, iterators) is an Object. Containers know how deep they are, so that no
// template can build one whose destruction or printing overflows the stack (limits.h).
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ashlar::text::jinja {

class Runtime;
class Object;
class Iterator;
class Value;

// Python's integers have no bound; ours cover what JSON can carry, and going beyond is an error.
using Int = __int128;

// Returns live bytes to the render that made them when the value dies.
class Charge {
 public:
  Charge() = default;
  Charge(std::size_t* live_bytes, std::size_t bytes) : live_bytes_(live_bytes), bytes_(bytes) {
    *live_bytes_ += bytes_;
  }
  Charge(Charge&& other) noexcept
      : live_bytes_(std::exchange(other.live_bytes_, nullptr)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge() {
    if (live_bytes_ != nullptr) {
      *live_bytes_ -= bytes_;
    }
  }

 private:
  std::size_t* live_bytes_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Undefined {
  std::string message;  // what is wrong with using it: "'x' is undefined"
};

enum class TextKind : std::uint8_t { kPlain, kMarkup };

struct Text {
  std::string bytes;      // UTF-8
  std::size_t chars = 0;  // code points: what len() says
  // kMarkup came from `safe` or `escape`, and escapes what is added to it.
  TextKind kind = TextKind::kPlain;
  Charge charge;

  bool is_markup() const { return kind == TextKind::kMarkup; }
};

enum class SequenceKind : std::uint8_t { kList, kTuple, kGroup };  // kGroup: what `groupby` yields

struct Sequence {
  std::vector<Value> items;
  SequenceKind kind = SequenceKind::kList;
  int depth = 1;
  Charge charge;
};

struct Dict;

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kObject
};

class Value {
 public:
  Value() = default;  // None
  static Value None() { return Value(); }
  static Value Bool(bool value) { return Value(Data(std::in_place_index<2>, value)); }
  static Value Integer(Int value) { return Value(Data(std::in_place_index<3>, value)); }
  static Value Float(double value) { return Value(Data(std::in_place_index<4>, value)); }
  static Value MakeUndefined(std::string message);
  // A string that no render pays for: constants of the program. `bytes` is UTF-8.
  static Value Constant(std::string bytes);
  explicit Value(std::shared_ptr<const Text> text) : data_(std::move(text)) {}
  explicit Value(std::shared_ptr<const Sequence> sequence) : data_(std::move(sequence)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  static Value Of(std::shared_ptr<Object> object) { return Value(Data(std::move(object))); }

  Kind kind() const;
  bool IsUndefined() const { return kind() == Kind::kUndefined; }
  bool IsNone() const { return kind() == Kind::kNone; }
  bool IsBool() const { return kind() == Kind::kBool; }
  bool IsInt() const { return kind() == Kind::kInt; }  // not bool
  bool IsIntegral() const { return IsInt() || IsBool(); }
  bool IsFloat() const { return kind() == Kind::kFloat; }
  bool IsNumber() const { return IsIntegral() || IsFloat(); }
  bool IsString() const { return kind() == Kind::kString; }
  bool IsSequence() const { return kind() == Kind::kSequence; }
  bool IsList() const { return IsSequence() && sequence().kind == SequenceKind::kList; }
  bool IsTuple() const { return IsSequence() && sequence().kind != SequenceKind::kList; }
  bool IsDict() const { return kind() == Kind::kDict; }
  bool IsObject() const { return kind() == Kind::kObject; }

  // Preconditions: the kind that the name says.
  const Undefined& undefined() const { return *std::get<0>(data_); }
  bool boolean() const { return std::get<2>(data_); }
  Int integer() const { return IsBool() ? Int{boolean()} : std::get<3>(data_); }  // also of a bool
  double real() const { return std::get<4>(data_); }
  double number() const { return IsFloat() ? real() : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<5>(data_); }
  const std::string& bytes() const { return text().bytes; }
  const Sequence& sequence() const { return *std::get<6>(data_); }
  const std::vector<Value>& items() const { return sequence().items; }
  const Dict& dict() const { return *std::get<7>(data_); }
  const std::shared_ptr<Object>& object() const { return std::get<8>(data_); }

  // Python's `is`.
  bool IsSameAs(const Value& other) const;

 private:
  struct NoneType {};
  using Data = std::variant<std::shared_ptr<const Undefined>, NoneType, bool, Int, double,
                            std::shared_ptr<const Text>, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Object>>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_ = NoneType{};
};

using Entries = std::vector<std::pair<Value, Value>>;

// Keys are None, numbers and strings; 1, 1.0 and True are the same key, as in Python.
struct Dict {
  Entries entries;                   // in order of insertion
  std::vector<std::uint32_t> order;  // entries sorted by key; empty when there are few
  int depth = 1;
  Charge charge;

  // Makes keys unique (the last value wins, the first place stays) and builds `order`.
  void Index();
  const Value* Find(const Value& key) const;  // O(log n)
  const Value* Find(std::string_view key) const;
};

// Whether a value can be a key; lists and dicts cannot, and tuples are outside the subset.
bool IsKey(const Value& value);
// Numbers by value, exactly also between integers and floats; a NaN is unordered with all.
std::partial_ordering CompareNumbers(const Value& a, const Value& b);
// A total order of keys: None, numbers by value, strings by code point.
bool KeyLess(const Value& a, const Value& b);

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Object : public std::enable_shared_from_this<Object> {
 public:
  explicit Object(int depth) : depth_(depth) {}
  virtual ~Object() = default;

  virtual std::string_view TypeName() const = 0;
  virtual bool IsTrue() const { return true; }
  virtual Result<std::string> Represent(Runtime& runtime) const = 0;
  // None when there is no such attribute.
  virtual Result<std::optional<Value>> GetAttribute(Runtime& runtime, std::string_view name);
  virtual std::optional<std::size_t> Length() const { return std::nullopt; }
  // Sequences by position (range()); 0 <= index < *Length().
  virtual bool IsIndexable() const { return false; }
  virtual Value At(std::size_t index) const;
  virtual bool IsCallable() const { return false; }
  virtual Result<Value> Call(Runtime& runtime, const Arguments& arguments);
  // nullptr when it cannot be iterated over.
  virtual Result<std::shared_ptr<Iterator>> Iterate(Runtime& runtime);

  int depth() const { return depth_; }

 private:
  int depth_;
};

// Yields values once: what `map`, `select`, `items`... return (Python's generators), and what loops
// use.
class Iterator : public Object {
 public:
  using Object::Object;
  // Nothing at the end, and from then on.
  virtual Result<std::optional<Value>> Next(Runtime& runtime) = 0;

  std::string_view TypeName() const override { return "generator"; }
  Result<std::string> Represent(Runtime& runtime) const override;
  Result<std::shared_ptr<Iterator>> Iterate(Runtime& runtime) override;
};

// 0 for scalars; 1 + the deepest item for containers.
int DepthOf(const Value& value);
// Python's name of the type: "NoneType", "int", "str", "list".
std::string_view TypeName(const Value& value);
// Python's truth: false for undefined, None, False, 0, '' and empty containers.
bool IsTrue(const Value& value);
// len(), where the value has one.
std::optional<std::size_t> LengthOf(const Value& value);

}  // namespace ashlar::text::jinja
