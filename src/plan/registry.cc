#include "plan/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/config_reader.h"
#include "plan/registry_data.h"

namespace ashlar::plan {
namespace {

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxSuggestions = 3;
// Of names, which say how the same geometry was trained or packed.
constexpr std::array<std::string_view, 7> kEndings = {"-instruct", "-chat", "-hf",  "-it",
                                                      "-pt",       "-base", "-gguf"};

std::string KeyOf(std::string_view name) {
  name = name.substr(0, kMaxNameBytes);
  const std::size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string key;
  for (const char c : name) {
    key += c == '_' || c == ' ' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (key.starts_with("meta-")) key.erase(0, 5);
  return key;
}

std::string WithoutEndings(std::string key) {
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (const std::string_view ending : kEndings) {
      if (!key.ends_with(ending)) continue;
      key.resize(key.size() - ending.size());
      is_done = false;
    }
  }
  return key;
}

}  // namespace

Result<Registry> Registry::Parse(std::string_view text, std::string where) {
  const auto bad = [&](std::string_view why) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: {}; a registry is {{\"models\": [{{\"id\": \"name\", and the fields of a "
                     "config.json}}, ...]}}",
                     where, why);
  };
  if (text.size() > kMaxRegistryBytes) {
    return bad(fmt::format("{} bytes, more than {}", text.size(), kMaxRegistryBytes));
  }
  const Result<Json> document = ParseJson(text);
  if (!document.ok()) return bad(document.error().message);
  const auto models = document->find("models");
  if (models == document->end() || !models->is_array()) return bad("there is no list \"models\"");
  Registry registry;
  for (const Json& model : *models) {
    const std::size_t number = registry.entries_.size();
    const auto id = model.find("id");
    if (!model.is_object() || id == model.end() || !id->is_string() ||
        id->get_ref<const std::string&>().empty() ||
        id->get_ref<const std::string&>().size() > kMaxNameBytes) {
      return bad(fmt::format("model {} has no \"id\" of 1 to {} bytes", number, kMaxNameBytes));
    }
    const std::string& name = id->get_ref<const std::string&>();
    std::string key = KeyOf(name);
    const auto same = std::ranges::find(registry.entries_, key, &Entry::key);
    if (same != registry.entries_.end()) {
      return bad(fmt::format("'{}' and '{}' are the same name", same->id, name));
    }
    registry.entries_.push_back({.id = name, .key = std::move(key), .config = model});
  }
  registry.where_ = std::move(where);
  return registry;
}

const Registry& Registry::BuiltIn() {
  static const Registry kRegistry = [] {
    Result<Registry> parsed = Parse(kRegistryJson, "the built-in registry");
    ASHLAR_CHECK(parsed.ok(), "{}", parsed.error().message);
    return *std::move(parsed);
  }();
  return kRegistry;
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const Entry& entry : entries_) names.push_back(entry.id);
  return names;
}

Result<Geometry> Registry::Find(std::string_view name) const {
  const std::string key = KeyOf(name);
  auto entry = std::ranges::find(entries_, key, &Entry::key);
  if (entry == entries_.end()) {
    entry = std::ranges::find(entries_, WithoutEndings(key), &Entry::key);
  }
  if (entry != entries_.end()) {
    return ReadConfig(entry->config, entry->id, fmt::format("model '{}' of {}", entry->id, where_));
  }
  const std::vector<std::string> near = Suggestions(name);
  return MakeError(ErrorCode::kNotFound,
                   "there is no model '{}' in {}, and no such file{}; --list names all {}",
                   name.substr(0, kMaxNameBytes), where_,
                   near.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(near, ", ")),
                   entries_.size());
}

std::vector<std::string> Registry::Suggestions(std::string_view name) const {
  const std::string key = WithoutEndings(KeyOf(name));
  struct Near {
    std::size_t distance;
    const Entry* entry;
  };
  std::vector<Near> near;
  near.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    // A part of a name is nearer than another name of that length.
    const bool is_part = !key.empty() && (entry.key.find(key) != std::string::npos ||
                                          key.find(entry.key) != std::string::npos);
    const std::size_t distance = is_part ? 0 : EditDistance(key, entry.key);
    if (distance <= std::max<std::size_t>(2, key.size() / 3)) near.push_back({distance, &entry});
  }
  std::ranges::stable_sort(near, {}, &Near::distance);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(near.size(), kMaxSuggestions); ++i) {
    names.push_back(near[i].entry->id);
  }
  return names;
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace ashlar::plan
