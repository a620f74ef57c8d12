#include "text/jinja/runtime.h"

#include <algorithm>

#include "text/jinja/objects.h"
#include "text/jinja/scope.h"
#include "text/jinja/unicode.h"

namespace ashlar::text::jinja {
namespace {

// What a list or dict costs per item beyond the items' own strings.
constexpr std::size_t kItemBytes = sizeof(Value) + 8;
// Strings that were built piece by piece have room to spare; more than this is given back.
constexpr std::size_t kWorthShrinking = 256;

class FunctionIterator final : public Iterator {
 public:
  FunctionIterator(Runtime::NextFunction next, int depth)
      : Iterator(depth), next_(std::move(next)) {}

  Result<std::optional<Value>> Next(Runtime& runtime) override {
    if (!next_) {
      return std::optional<Value>();
    }
    ASHLAR_TRY(runtime.Spend());
    ASHLAR_ASSIGN(const auto level, runtime.Enter());
    ASHLAR_ASSIGN(std::optional<Value> value, next_(runtime));
    if (!value) {
      next_ = nullptr;
    }
    return value;
  }

 private:
  Runtime::NextFunction next_;
};

// Over what has positions: lists, dicts (their keys), strings (their letters), ranges.
class PositionIterator final : public Iterator {
 public:
  PositionIterator(Value value, std::size_t length)
      : Iterator(DepthOf(value) + 1), value_(std::move(value)), length_(length) {}

  Result<std::optional<Value>> Next(Runtime& runtime) override {
    if (position_ == length_) {
      return std::optional<Value>();
    }
    ASHLAR_TRY(runtime.Spend());
    const std::size_t index = position_++;
    switch (value_.kind()) {
      case Kind::kString: {
        const std::size_t start = byte_;
        (void)NextChar(value_.bytes(), &byte_);
        ASHLAR_ASSIGN(Value letter, runtime.String(value_.bytes().substr(start, byte_ - start)));
        return std::optional<Value>(std::move(letter));
      }
      case Kind::kSequence:
        return std::optional<Value>(value_.items()[index]);
      case Kind::kDict:
        return std::optional<Value>(value_.dict().entries[index].first);
      default:
        return std::optional<Value>(value_.object()->At(index));
    }
  }

 private:
  const Value value_;
  const std::size_t length_;
  std::size_t position_ = 0;
  std::size_t byte_ = 0;
};

}  // namespace

Runtime::~Runtime() {
  for (const auto& name_space : namespaces_) {
    name_space->Clear();
  }
  for (const auto& scope : scopes_) {
    scope->Clear();
  }
}

Error Runtime::StepsExhausted() const {
  return Exhausted("the template does not end within {} steps", limits_.steps);
}

Status Runtime::CheckStringBytes(std::size_t bytes) const {
  if (bytes > limits_.string_bytes) {
    return Exhausted("a string of {} bytes; at most {} are allowed", bytes, limits_.string_bytes);
  }
  return {};
}

Result<Runtime::Level> Runtime::Enter() {
  if (depth_ >= limits_.evaluation_depth) {
    return Exhausted("calls and expressions are nested more than {} deep",
                     limits_.evaluation_depth);
  }
  return Level(&depth_);
}

Result<Charge> Runtime::Hold(std::size_t bytes) {
  if (bytes > limits_.live_bytes || live_bytes_ > limits_.live_bytes - bytes) {
    return Exhausted("the template's values need more than {} bytes", limits_.live_bytes);
  }
  return Charge(&live_bytes_, bytes);
}

Status Runtime::CheckDepth(int depth) const {
  if (depth >= limits_.value_depth) {
    return Exhausted("values are nested more than {} deep", limits_.value_depth);
  }
  return {};
}

Result<Value> Runtime::String(std::string bytes, TextKind kind) {
  ASHLAR_TRY(SpendBytes(bytes.size()));
  ASHLAR_TRY(CheckStringBytes(bytes.size()));
  if (bytes.capacity() - bytes.size() > kWorthShrinking) {
    bytes.shrink_to_fit();
  }
  ASHLAR_ASSIGN(Charge charge, Hold(sizeof(Text) + bytes.capacity()));
  const std::size_t chars = CountChars(bytes);
  return Value(
      std::make_shared<const Text>(Text{std::move(bytes), chars, kind, std::move(charge)}));
}

Result<Value> Runtime::MakeSequence(std::vector<Value> items, SequenceKind kind) {
  ASHLAR_TRY(SpendBytes(items.size() * kItemBytes));
  ASHLAR_ASSIGN(Charge charge, Hold(sizeof(Sequence) + items.capacity() * kItemBytes));
  int deepest = 0;
  for (const Value& item : items) {
    deepest = std::max(deepest, DepthOf(item));
  }
  ASHLAR_TRY(CheckDepth(deepest));
  return Value(std::make_shared<const Sequence>(
      Sequence{std::move(items), kind, deepest + 1, std::move(charge)}));
}

Result<Value> Runtime::MakeDict(Entries entries) {
  ASHLAR_TRY(SpendBytes(2 * entries.size() * kItemBytes));
  ASHLAR_ASSIGN(Charge charge, Hold(sizeof(Dict) + 2 * entries.capacity() * kItemBytes));
  int deepest = 0;
  for (const auto& [key, value] : entries) {
    deepest = std::max(deepest, DepthOf(value));
  }
  ASHLAR_TRY(CheckDepth(deepest));
  auto dict = std::make_shared<Dict>(Dict{std::move(entries), {}, deepest + 1, std::move(charge)});
  dict->Index();
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Result<Value> Runtime::MakeIterator(NextFunction next, int depth) {
  ASHLAR_TRY(CheckDepth(depth));
  return Value::Of(std::make_shared<FunctionIterator>(std::move(next), depth + 1));
}

Result<std::shared_ptr<Iterator>> Iterate(Runtime& runtime, const Value& value) {
  if (value.IsUndefined()) {
    return std::shared_ptr<Iterator>(std::make_shared<PositionIterator>(value, 0));
  }
  if (value.IsObject() && !value.object()->IsIndexable()) {
    ASHLAR_ASSIGN(std::shared_ptr<Iterator> iterator, value.object()->Iterate(runtime));
    if (iterator == nullptr) {
      return Invalid("'{}' object is not iterable", TypeName(value));
    }
    return iterator;
  }
  const std::optional<std::size_t> length = LengthOf(value);
  if (!length) {
    return Invalid("'{}' object is not iterable", TypeName(value));
  }
  return std::shared_ptr<Iterator>(std::make_shared<PositionIterator>(value, *length));
}

Result<std::vector<Value>> Collect(Runtime& runtime, const Value& value) {
  if (value.IsSequence()) {
    ASHLAR_TRY(runtime.SpendBytes(value.items().size() * kItemBytes));
    return value.items();
  }
  ASHLAR_ASSIGN(const std::shared_ptr<Iterator> iterator, Iterate(runtime, value));
  std::vector<Value> items;
  while (true) {
    ASHLAR_ASSIGN(std::optional<Value> item, iterator->Next(runtime));
    if (!item) {
      return items;
    }
    if ((items.size() + 1) * kItemBytes > runtime.limits().live_bytes) {
      return Exhausted("a list of {} items does not fit {} bytes", items.size() + 1,
                       runtime.limits().live_bytes);
    }
    items.push_back(std::move(*item));
  }
}

}  // namespace ashlar::text::jinja
