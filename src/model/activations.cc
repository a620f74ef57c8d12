#include "model/activations.h"

namespace ashlar::model {

std::string_view NameOf(Activations activations) {
  return activations == Activations::kInt8 ? "int8" : "f32";
}

Result<Activations> ParseActivations(std::string_view name) {
  if (name == "f32") return Activations::kF32;
  if (name == "int8") return Activations::kInt8;
  return MakeError(ErrorCode::kInvalidArgument, "activations are '{}'; they can be int8 or f32",
                   name);
}

}  // namespace ashlar::model
