// Put the evaluator's scope and output back.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "text/jinja/evaluator.h"

namespace ashlar::text::jinja {

class Evaluator::ScopeGuard {
 public:
  ScopeGuard(Evaluator* evaluator, std::shared_ptr<Scope> scope)
      : evaluator_(evaluator), outer_(std::exchange(evaluator->scope_, std::move(scope))) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() { evaluator_->scope_ = std::move(outer_); }

 private:
  Evaluator* evaluator_;
  std::shared_ptr<Scope> outer_;
};

class Evaluator::OutputGuard {
 public:
  OutputGuard(Evaluator* evaluator, std::string* out)
      : evaluator_(evaluator), outer_(std::exchange(evaluator->out_, out)) {}
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;
  ~OutputGuard() { evaluator_->out_ = outer_; }

 private:
  Evaluator* evaluator_;
  std::string* outer_;
};

}  // namespace ashlar::text::jinja
