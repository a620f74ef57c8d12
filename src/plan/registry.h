// Models by name: their geometry, as config.json's fields, in one JSON document
//
//   {"models": [{"id": "llama-3-70b", "model_type": "llama", "num_hidden_layers": 80, ...}, ...]}
//
// The built-in one is registry.json beside this file, in the program itself. What a model needs
// beside the fields of config_reader.h is its id, unique in the document; "source" and "note" are
// for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/config_fields.h"
#include "plan/geometry.h"

namespace ashlar::plan {

inline constexpr std::size_t kMaxRegistryBytes = std::size_t{16} << 20;

class Registry {
 public:
  // `where` stands for the document in errors. Errors: kCorrupt naming what is wrong with which
  // entry; the geometry of an entry is read when it is asked for.
  static Result<Registry> Parse(std::string_view text, std::string where);
  static const Registry& BuiltIn();

  // In the document's order.
  std::vector<std::string> names() const;

  // By id; case, an organisation before a slash, '_' for '-', and endings like -Instruct make no
  // difference. Errors: kNotFound with the ids nearest to the name; as ReadConfig.
  Result<Geometry> Find(std::string_view name) const;

  // The ids nearest to a name that is not there, nearest first: up to three.
  std::vector<std::string> Suggestions(std::string_view name) const;

 private:
  struct Entry {
    std::string id;
    std::string key;  // the id as it is compared
    Json config;
  };

  std::string where_;
  std::vector<Entry> entries_;
};

// Steps of one letter put in, left out or replaced between two names. O(|a| |b|).
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace ashlar::plan
