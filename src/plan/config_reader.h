// A model's geometry from the fields of a config.json, as the Hugging Face Hub has them. Fields
// have many names there; those of GGUF metadata (without the architecture) and of the registry are
// read the same way.
//
// Everything is checked: a field that is missing, of the wrong type or out of range is an error
// that names it. What is not known of an architecture makes the weights an estimate, never the
// cache.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/config_fields.h"
#include "plan/geometry.h"

namespace ashlar::plan {

// A config.json is a few KiB.
inline constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;

// `name` stands for the model, `where` for the source in errors ("'path'"). Errors: kCorrupt naming
// the field, kUnsupported for attention that no lane group describes.
Result<Geometry> ReadConfig(const Json& config, std::string name, std::string where);

// The text of a config.json: one object; of a model that is more than a language model, the part
// that is (text_config).
Result<Geometry> ParseConfig(std::string_view text, std::string name, std::string where);

}  // namespace ashlar::plan
