#include "text/jinja/arguments.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/representation.h"

namespace ashlar::text::jinja {

Result<BoundArguments> BoundArguments::Bind(const Signature& signature,
                                            const Arguments& arguments) {
  BoundArguments bound;
  bound.name_ = signature.name;
  const auto& parameters = signature.parameters;
  const std::size_t count = static_cast<std::size_t>(
      std::find(parameters.begin(), parameters.end(), "") - parameters.begin());
  if (arguments.positional.size() > count) {
    return Invalid("{}() takes at most {} arguments, not {}", signature.name, count,
                   arguments.positional.size());
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const std::size_t index = static_cast<std::size_t>(
        std::find(parameters.begin(), parameters.begin() + static_cast<std::ptrdiff_t>(count),
                  name) -
        parameters.begin());
    if (index == count) {
      return Invalid("{}() has no argument '{}'", signature.name, Excerpt(name));
    }
    if (bound.Has(index)) {
      return Invalid("{}() got two values for the argument '{}'", signature.name, name);
    }
    bound.values_[index] = value;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(signature.required); ++i) {
    if (!bound.Has(i)) {
      return Invalid("{}() needs the argument '{}'", signature.name, parameters[i]);
    }
  }
  return bound;
}

Result<Int> BoundArguments::Integer(std::size_t index, Int otherwise) const {
  if (!Has(index)) {
    return otherwise;
  }
  ASHLAR_TRY(CheckDefined(*values_[index]));
  if (!values_[index]->IsIntegral()) {
    return Invalid("{}() needs an integer, not '{}'", name_, TypeName(*values_[index]));
  }
  return values_[index]->integer();
}

Result<std::string_view> BoundArguments::Text(std::size_t index, std::string_view otherwise) const {
  if (!Has(index)) {
    return otherwise;
  }
  ASHLAR_TRY(CheckDefined(*values_[index]));
  if (!values_[index]->IsString()) {
    return Invalid("{}() needs a string, not '{}'", name_, TypeName(*values_[index]));
  }
  return std::string_view(values_[index]->bytes());
}

}  // namespace ashlar::text::jinja
