#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

// Dicts with more entries than this carry an index.
constexpr std::size_t kLinearSearchEntries = 8;

int KeyRank(const Value& value) {
  if (value.IsNone()) {
    return 0;
  }
  return value.IsNumber() ? 1 : 2;
}

// Where `value` stands to `real`, which is not NaN.
std::partial_ordering CompareWithFloat(Int value, double real) {
  constexpr double kBeyondAllInts = 0x1p127;
  if (real >= kBeyondAllInts) {
    return std::partial_ordering::less;
  }
  if (real < -kBeyondAllInts) {
    return std::partial_ordering::greater;
  }
  const double whole = std::trunc(real);
  const Int integer = static_cast<Int>(whole);
  if (value != integer) {
    return value < integer ? std::partial_ordering::less : std::partial_ordering::greater;
  }
  return 0.0 <=> real - whole;
}

// As CompareNumbers, with all NaNs equal and before the other numbers, so that sorting them is
// defined.
bool NumberLess(const Value& a, const Value& b) {
  const bool a_is_nan = a.IsFloat() && std::isnan(a.real());
  const bool b_is_nan = b.IsFloat() && std::isnan(b.real());
  return a_is_nan || b_is_nan ? a_is_nan && !b_is_nan : CompareNumbers(a, b) < 0;
}

bool KeyEqual(const Value& a, const Value& b) { return !KeyLess(a, b) && !KeyLess(b, a); }

}  // namespace

Value Value::MakeUndefined(std::string message) {
  return Value(Data(std::in_place_index<0>,
                    std::make_shared<const Undefined>(Undefined{std::move(message)})));
}

Value Value::Constant(std::string bytes) {
  const std::size_t chars = CountChars(bytes);
  return Value(
      std::make_shared<const Text>(Text{std::move(bytes), chars, TextKind::kPlain, Charge()}));
}

Kind Value::kind() const { return static_cast<Kind>(data_.index()); }

bool Value::IsSameAs(const Value& other) const {
  if (kind() != other.kind()) {
    return false;
  }
  switch (kind()) {
    case Kind::kUndefined:
      return std::get<0>(data_) == std::get<0>(other.data_);
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return boolean() == other.boolean();
    case Kind::kInt:  // small integers are one object in the reference; larger ones rarely asked
                      // about
      return integer() == other.integer();
    case Kind::kFloat:
      return real() == other.real();
    case Kind::kString:
      return std::get<5>(data_) == std::get<5>(other.data_);
    case Kind::kSequence:
      return std::get<6>(data_) == std::get<6>(other.data_);
    case Kind::kDict:
      return std::get<7>(data_) == std::get<7>(other.data_);
    case Kind::kObject:
      return std::get<8>(data_) == std::get<8>(other.data_);
  }
  return false;
}

std::partial_ordering CompareNumbers(const Value& a, const Value& b) {
  if (a.IsFloat() && b.IsFloat()) {
    return a.real() <=> b.real();
  }
  if ((a.IsFloat() && std::isnan(a.real())) || (b.IsFloat() && std::isnan(b.real()))) {
    return std::partial_ordering::unordered;
  }
  if (b.IsFloat()) {
    return CompareWithFloat(a.integer(), b.real());
  }
  if (a.IsFloat()) {
    return 0 <=> CompareWithFloat(b.integer(), a.real());
  }
  return a.integer() < b.integer()   ? std::partial_ordering::less
         : a.integer() > b.integer() ? std::partial_ordering::greater
                                     : std::partial_ordering::equivalent;
}

bool IsKey(const Value& value) { return value.IsNone() || value.IsNumber() || value.IsString(); }

bool KeyLess(const Value& a, const Value& b) {
  const int rank_a = KeyRank(a);
  const int rank_b = KeyRank(b);
  if (rank_a != rank_b || rank_a == 0) {
    return rank_a < rank_b;
  }
  return rank_a == 1 ? NumberLess(a, b) : a.bytes() < b.bytes();
}

void Dict::Index() {
  std::vector<std::uint32_t> by_key(entries.size());
  std::iota(by_key.begin(), by_key.end(), 0u);
  // By key, and entries of one key by their place.
  std::sort(by_key.begin(), by_key.end(), [this](std::uint32_t a, std::uint32_t b) {
    const bool is_less = KeyLess(entries[a].first, entries[b].first);
    return is_less || (a < b && !KeyLess(entries[b].first, entries[a].first));
  });
  std::vector<bool> is_dropped(entries.size(), false);
  bool has_duplicates = false;
  for (std::size_t i = 0; i < by_key.size();) {
    std::size_t end = i + 1;
    while (end < by_key.size() && KeyEqual(entries[by_key[i]].first, entries[by_key[end]].first)) {
      is_dropped[by_key[end]] = true;
      has_duplicates = true;
      ++end;
    }
    entries[by_key[i]].second = entries[by_key[end - 1]].second;
    i = end;
  }
  if (has_duplicates) {
    Entries kept;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!is_dropped[i]) {
        kept.push_back(std::move(entries[i]));
      }
    }
    entries = std::move(kept);
    Index();
    return;
  }
  if (entries.size() > kLinearSearchEntries) {
    order = std::move(by_key);
  }
}

const Value* Dict::Find(const Value& key) const {
  if (key.IsString()) {
    return Find(key.bytes());
  }
  for (const auto& [entry_key, value] : entries) {
    if (order.empty() && KeyEqual(entry_key, key)) {
      return &value;
    }
  }
  const auto found = std::lower_bound(
      order.begin(), order.end(), key,
      [this](std::uint32_t i, const Value& wanted) { return KeyLess(entries[i].first, wanted); });
  return found != order.end() && KeyEqual(entries[*found].first, key) ? &entries[*found].second
                                                                      : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  if (order.empty()) {
    for (const auto& [entry_key, value] : entries) {
      if (entry_key.IsString() && entry_key.bytes() == key) {
        return &value;
      }
    }
    return nullptr;
  }
  const auto found = std::lower_bound(order.begin(), order.end(), key,
                                      [this](std::uint32_t i, std::string_view wanted) {
                                        const Value& entry_key = entries[i].first;
                                        return KeyRank(entry_key) < 2 || entry_key.bytes() < wanted;
                                      });
  if (found == order.end()) {
    return nullptr;
  }
  const auto& [entry_key, value] = entries[*found];
  return entry_key.IsString() && entry_key.bytes() == key ? &value : nullptr;
}

Result<std::optional<Value>> Object::GetAttribute(Runtime&, std::string_view) {
  return std::optional<Value>();
}

Value Object::At(std::size_t) const { ASHLAR_CHECK(false, "At() of an object without positions"); }

Result<Value> Object::Call(Runtime&, const Arguments&) {
  return Invalid("'{}' object is not callable", TypeName());
}

Result<std::shared_ptr<Iterator>> Object::Iterate(Runtime&) { return std::shared_ptr<Iterator>(); }

Result<std::string> Iterator::Represent(Runtime&) const {
  return Unsupported("printing a '{}' object; add `| list` or `| join`", TypeName());
}

Result<std::shared_ptr<Iterator>> Iterator::Iterate(Runtime&) {
  return std::static_pointer_cast<Iterator>(shared_from_this());
}

int DepthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kSequence:
      return value.sequence().depth;
    case Kind::kDict:
      return value.dict().depth;
    case Kind::kObject:
      return value.object()->depth();
    default:
      return 0;
  }
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.text().is_markup() ? "Markup" : "str";
    case Kind::kSequence:
      return value.IsList() ? "list" : "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.object()->TypeName();
  }
  return "?";
}

bool IsTrue(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.boolean();
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return !value.bytes().empty();
    case Kind::kSequence:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kObject:
      return value.object()->IsTrue();
  }
  return false;
}

std::optional<std::size_t> LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.text().chars;
    case Kind::kSequence:
      return value.items().size();
    case Kind::kDict:
      return value.dict().entries.size();
    case Kind::kObject:
      return value.object()->Length();
    default:
      return std::nullopt;
  }
}

}  // namespace ashlar::text::jinja
