#include "text/jinja/objects.h"

#include <algorithm>

#include "text/jinja/representation.h"

namespace ashlar::text::jinja {

Result<std::string> Range::Represent(Runtime&) const {
  if (step_ == 1) {
    return fmt::format("range({}, {})", start_, stop_);
  }
  return fmt::format("range({}, {}, {})", start_, stop_, step_);
}

std::string_view DictView::TypeName() const {
  switch (part_) {
    case Part::kKeys:
      return "dict_keys";
    case Part::kValues:
      return "dict_values";
    case Part::kItems:
      return "dict_items";
  }
  return "?";
}

Result<std::string> DictView::Represent(Runtime& runtime) const {
  std::string out = fmt::format("{}([", TypeName());
  std::string_view separator;
  for (const auto& [key, value] : dict_.dict().entries) {
    out += separator;
    separator = ", ";
    out += part_ == Part::kItems ? "(" : "";
    if (part_ != Part::kValues) {
      ASHLAR_TRY(AppendRepr(runtime, key, &out));
    }
    out += part_ == Part::kItems ? ", " : "";
    if (part_ != Part::kKeys) {
      ASHLAR_TRY(AppendRepr(runtime, value, &out));
    }
    out += part_ == Part::kItems ? ")" : "";
  }
  return out + "])";
}

Result<std::shared_ptr<Iterator>> DictView::Iterate(Runtime& runtime) {
  ASHLAR_ASSIGN(const Value iterator,
                runtime.MakeIterator(
                    [dict = dict_, part = part_, index = std::size_t{0}](
                        Runtime& inner) mutable -> Result<std::optional<Value>> {
                      if (index == dict.dict().entries.size()) {
                        return std::optional<Value>();
                      }
                      const auto& [key, value] = dict.dict().entries[index++];
                      if (part != Part::kItems) {
                        return std::optional<Value>(part == Part::kKeys ? key : value);
                      }
                      ASHLAR_ASSIGN(Value pair, inner.Tuple({key, value}));
                      return std::optional<Value>(std::move(pair));
                    },
                    depth()));
  return std::static_pointer_cast<Iterator>(iterator.object());
}

Result<std::string> Function::Represent(Runtime&) const {
  return fmt::format("<function {}>", name_);
}

Result<std::string> Method::Represent(Runtime&) const {
  return Unsupported("printing the method '{}' of a '{}' object; call it with ()", name_,
                     jinja::TypeName(self_));
}

Result<std::string> Namespace::Represent(Runtime& runtime) const {
  std::string out = "<Namespace {";
  std::string_view separator;
  for (const auto& [name, value] : attributes_) {
    out += separator;
    separator = ", ";
    ASHLAR_TRY(AppendRepr(runtime, name, &out));
    out += ": ";
    ASHLAR_TRY(AppendRepr(runtime, value, &out));
  }
  return out + "}>";
}

Result<std::optional<Value>> Namespace::GetAttribute(Runtime&, std::string_view name) {
  for (const auto& [attribute, value] : attributes_) {
    if (attribute.bytes() == name) {
      return std::optional<Value>(value);
    }
  }
  return std::optional<Value>();
}

Status Namespace::Set(Runtime& runtime, std::string_view name, Value value) {
  if (name.starts_with('_')) {
    return Invalid("a namespace cannot have the attribute '{}': its name begins with an underscore",
                   Excerpt(name));
  }
  for (auto& [attribute, old] : attributes_) {
    if (attribute.bytes() == name) {
      old = std::move(value);
      return {};
    }
  }
  ASHLAR_TRY(runtime.Spend(attributes_.size()));
  ASHLAR_ASSIGN(Value attribute, runtime.String(std::string(name)));
  attributes_.emplace_back(std::move(attribute), std::move(value));
  return {};
}

Result<std::string> Cycler::Represent(Runtime&) const {
  return Unsupported("printing a cycler; print its next()");
}

Result<std::optional<Value>> Cycler::GetAttribute(Runtime& runtime, std::string_view name) {
  if (name == "current") {
    return std::optional<Value>(items_[position_]);
  }
  if (name != "next" && name != "reset") {
    return std::optional<Value>();
  }
  ASHLAR_TRY(runtime.CheckDepth(depth()));
  return std::optional<Value>(Value::Of(std::make_shared<Method>(name == "next" ? "next" : "reset",
                                                                 Value::Of(shared_from_this()),
                                                                 name == "next" ? &Next : &Reset)));
}

Result<Value> Cycler::Next(Runtime&, const Value& self, const Arguments&) {
  auto& cycler = static_cast<Cycler&>(*self.object());
  const Value item = cycler.items_[cycler.position_];
  cycler.position_ = (cycler.position_ + 1) % cycler.items_.size();
  return item;
}

Result<Value> Cycler::Reset(Runtime&, const Value& self, const Arguments&) {
  static_cast<Cycler&>(*self.object()).position_ = 0;
  return Value::None();
}

Result<std::string> Joiner::Represent(Runtime&) const {
  return Unsupported("printing a joiner; call it with ()");
}

Result<Value> Joiner::Call(Runtime& runtime, const Arguments&) {
  if (!is_used_) {
    is_used_ = true;
    return runtime.String("");
  }
  return separator_;
}

}  // namespace ashlar::text::jinja
