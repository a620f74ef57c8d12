// Every small template of testdata/cases.json, whose texts the reference engine made
// (tests/oracle/templates/make_goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/jinja/testing/render.h"

namespace ashlar::text::jinja {
namespace {

using nlohmann::ordered_json;

const ordered_json& Goldens() {
  static const auto* const kGoldens = [] {
    std::ifstream file(ASHLAR_JINJA_TESTDATA "/cases.json");
    return new ordered_json(ordered_json::parse(file));
  }();
  return *kGoldens;
}

std::string TemplateOf(const ordered_json& entry) {
  return entry.contains("use") ? Goldens()["templates"][entry["use"].get<std::size_t>()]
                               : entry["template"];
}

// The number of cases whose names begin with `group`; each must render as the reference did.
int CheckGroup(const std::string& group) {
  int count = 0;
  for (const ordered_json& entry : Goldens()["cases"]) {
    const std::string name = entry["name"];
    if (!name.starts_with(group + "/")) {
      continue;
    }
    ++count;
    const std::string source = TemplateOf(entry);
    const Result<std::string> text =
        testing::Render(source, Goldens()["contexts"][name.substr(0, name.rfind('/'))]);
    if (entry.contains("fails")) {
      EXPECT_FALSE(text.ok()) << name << ": " << source << "\ngave: " << (text.ok() ? *text : "");
    } else if (!text.ok()) {
      ADD_FAILURE() << name << ": " << source << "\nfailed: " << text.error().message;
    } else {
      EXPECT_EQ(*text, entry["text"].get<std::string>()) << name << ": " << source;
    }
  }
  return count;
}

TEST(Cases, Lexing) { EXPECT_GT(CheckGroup("lexing"), 60); }
TEST(Cases, Expressions) { EXPECT_GT(CheckGroup("expressions"), 80); }
TEST(Cases, Strings) { EXPECT_GT(CheckGroup("strings"), 60); }
TEST(Cases, Sequences) { EXPECT_GT(CheckGroup("sequences"), 50); }
TEST(Cases, Statements) { EXPECT_GT(CheckGroup("statements"), 60); }
TEST(Cases, Functions) { EXPECT_GT(CheckGroup("functions"), 20); }
TEST(Cases, Errors) { EXPECT_GT(CheckGroup("errors"), 180); }
TEST(Cases, Families) { EXPECT_GT(CheckGroup("families"), 80); }

}  // namespace
}  // namespace ashlar::text::jinja
