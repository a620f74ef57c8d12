#include "model/weight_access.h"

namespace ashlar::model {

std::string_view NameOf(WeightAccess access) {
  return access == WeightAccess::kMmap ? "mmap" : "copy";
}

Result<WeightAccess> ParseWeightAccess(std::string_view name) {
  if (name == "copy") return WeightAccess::kCopy;
  if (name == "mmap") return WeightAccess::kMmap;
  return MakeError(ErrorCode::kInvalidArgument, "--weights is '{}'; it must be copy or mmap", name);
}

}  // namespace ashlar::model
