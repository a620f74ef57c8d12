// The variables of one block of a template, and the blocks around it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace ashlar::text::jinja {

// Names are numbers: positions in Program::names.
using NameId = int;

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  // Of this scope or of those around it; nullptr when none has it.
  const Value* Find(NameId name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      for (const auto& [variable, value] : scope->variables_) {
        if (variable == name) {
          return &value;
        }
      }
    }
    return nullptr;
  }
  void Set(NameId name, Value value) {
    for (auto& [variable, old] : variables_) {
      if (variable == name) {
        old = std::move(value);
        return;
      }
    }
    variables_.emplace_back(name, std::move(value));
  }
  void Clear() { variables_.clear(); }

  // A macro made here keeps the scope alive; the Runtime empties it at the end (they may form a
  // cycle).
  bool is_kept = false;
  Charge charge;

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<NameId, Value>> variables_;
};

}  // namespace ashlar::text::jinja
