#include "text/jinja/globals.h"

#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/representation.h"
#include "text/jinja/strftime.h"

namespace ashlar::text::jinja {
namespace {

Result<Value> MakeRange(Runtime&, const Arguments& arguments) {
  const std::size_t count = arguments.positional.size();
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"range", {"start", "stop", "step"}, 1}, arguments));
  if (!arguments.named.empty()) {
    return Invalid("range() takes no named arguments");
  }
  ASHLAR_ASSIGN(const Int first, bound.Integer(0, 0));
  ASHLAR_ASSIGN(const Int second, bound.Integer(1, 0));
  ASHLAR_ASSIGN(const Int step, bound.Integer(2, 1));
  const Int start = count == 1 ? 0 : first;
  const Int stop = count == 1 ? first : second;
  constexpr Int kFar = Int{1} << 100;
  if (step == 0) {
    return Invalid("range(): the step must not be zero");
  }
  for (const Int bound_value : {start, stop, step}) {
    if (bound_value > kFar || bound_value < -kFar) {
      return Exhausted("range() of numbers beyond 100 bits");
    }
  }
  const Int span = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int length = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (length > kMaxRangeItems) {
    return Exhausted("range() of {} items; at most {} are allowed", length, kMaxRangeItems);
  }
  return Value::Of(std::make_shared<Range>(start, stop, step, static_cast<std::size_t>(length)));
}

// The entries of dict(...): a mapping or pairs, then the named arguments.
Result<Entries> EntriesOf(Runtime& runtime, std::string_view name, const Arguments& arguments) {
  Entries entries;
  if (arguments.positional.size() > 1) {
    return Invalid("{}() takes one positional argument, not {}", name, arguments.positional.size());
  }
  if (!arguments.positional.empty() && arguments.positional[0].IsDict()) {
    entries = arguments.positional[0].dict().entries;
  } else if (!arguments.positional.empty()) {
    ASHLAR_ASSIGN(const std::vector<Value> pairs, Collect(runtime, arguments.positional[0]));
    for (const Value& pair : pairs) {
      ASHLAR_ASSIGN(const std::vector<Value> parts, Collect(runtime, pair));
      if (parts.size() != 2 || !IsKey(parts[0])) {
        return Invalid("{}() needs pairs of a key and a value", name);
      }
      entries.emplace_back(parts[0], parts[1]);
    }
  }
  for (const auto& [key, value] : arguments.named) {
    ASHLAR_ASSIGN(Value text, runtime.String(key));
    entries.emplace_back(std::move(text), value);
  }
  return entries;
}

Result<Value> MakeDictOf(Runtime& runtime, const Arguments& arguments) {
  ASHLAR_ASSIGN(Entries entries, EntriesOf(runtime, "dict", arguments));
  return runtime.MakeDict(std::move(entries));
}

Result<Value> MakeNamespace(Runtime& runtime, const Arguments& arguments) {
  ASHLAR_ASSIGN(const Entries entries, EntriesOf(runtime, "namespace", arguments));
  ASHLAR_ASSIGN(Charge charge,
                runtime.Hold(sizeof(Namespace) + 2 * sizeof(Value) * entries.size()));
  auto name_space = std::make_shared<Namespace>(std::move(charge));
  for (const auto& [key, value] : entries) {
    if (!key.IsString()) {
      return Invalid("the names of a namespace must be strings, not '{}'", TypeName(key));
    }
    ASHLAR_TRY(name_space->Set(runtime, key.bytes(), value));
  }
  runtime.Keep(name_space);
  return Value::Of(std::move(name_space));
}

Result<Value> MakeCycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return Invalid("cycler() needs at least one item, and no named arguments");
  }
  int depth = 0;
  for (const Value& item : arguments.positional) {
    depth = std::max(depth, DepthOf(item));
  }
  ASHLAR_TRY(runtime.CheckDepth(depth));
  return Value::Of(std::make_shared<Cycler>(arguments.positional, depth + 1));
}

Result<Value> MakeJoiner(Runtime& runtime, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound, BoundArguments::Bind({"joiner", {"sep"}}, arguments));
  ASHLAR_ASSIGN(const Value comma, runtime.String(", "));
  const Value separator = bound.Has(0) ? bound[0] : comma;
  ASHLAR_TRY(runtime.CheckDepth(DepthOf(separator)));
  return Value::Of(std::make_shared<Joiner>(separator, DepthOf(separator) + 1));
}

// The template's own complaint about the conversation: its text goes to the user as it is.
Result<Value> RaiseException(Runtime& runtime, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"raise_exception", {"message"}, 1}, arguments));
  ASHLAR_ASSIGN(const std::string message, Str(runtime, bound[0]));
  runtime.is_error_located = true;
  return Invalid("{}", message);
}

Result<Value> TellTime(Runtime& runtime, const Arguments& arguments) {
  ASHLAR_ASSIGN(const BoundArguments bound,
                BoundArguments::Bind({"strftime_now", {"format"}, 1}, arguments));
  ASHLAR_ASSIGN(const std::string_view format, bound.Text(0, ""));
  ASHLAR_TRY(runtime.Spend(format.size()));
  ASHLAR_ASSIGN(std::string text, FormatTime(runtime.now(), format));
  return runtime.String(std::move(text));
}

}  // namespace

std::optional<Value> FindGlobal(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Function::Body>, 7> kFunctions = {{
      {"cycler", &MakeCycler},
      {"dict", &MakeDictOf},
      {"joiner", &MakeJoiner},
      {"namespace", &MakeNamespace},
      {"raise_exception", &RaiseException},
      {"range", &MakeRange},
      {"strftime_now", &TellTime},
  }};
  const auto* found = std::find_if(kFunctions.begin(), kFunctions.end(),
                                   [name](const auto& entry) { return entry.first == name; });
  if (found == kFunctions.end()) {
    return std::nullopt;
  }
  return Value::Of(std::make_shared<Function>(found->first, found->second));
}

}  // namespace ashlar::text::jinja
