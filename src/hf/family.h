// The families whose folders are read, as data: what their tensors are called there, and how they
// differ from what GGUF has under its names. Nothing else here knows a family's name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ashlar::hf {

// A module by its name there and by GGUF's. '#' stands for a number. Empty `ours`: not needed.
struct ModuleName {
  std::string_view theirs;
  std::string_view ours;
};

struct Family {
  std::string_view model_type;    // of config.json
  std::string_view architecture;  // GGUF's
  std::string_view activation;    // the one that it runs with
  std::span<const ModuleName> layer;
  std::span<const ModuleName> whole;  // beside the layers

  bool permutes_heads = false;        // GGUF has the rows of Q and K in pairs (2 i, 2 i + 1)
  bool raises_norms = false;          // GGUF's norms have the 1 added that the model adds
  bool is_transposed = false;         // matrices of layers are [columns, rows]
  bool interleaves_qkv = false;       // rows by kv head: its queries, its key, its value
  bool chooses_by_sigmoid = false;    // experts, in groups, unless config.json says otherwise
  bool needs_head_dim = false;        // config.json must name it
  std::uint32_t default_context = 0;  // of a config that names none
};

std::span<const Family> Families();
// nullptr when there is none of that model_type.
const Family* FindFamily(std::string_view model_type);

// What a tensor's name means: GGUF's name, "" for what is not needed, or nothing for an unknown
// one. `name` is without the last part ("weight").
std::optional<std::string> OurModule(const Family& family, std::string_view name);

}  // namespace ashlar::hf
