#!/usr/bin/env python3
"""Tests of the house rules: each is shown to pass good code, and to fail bad code and say where."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import rule_docs  # noqa: E402
import rule_headers  # noqa: E402
import rule_includes  # noqa: E402
import rule_listed  # noqa: E402
import rule_sizes  # noqa: E402
from tidy_test import find_all  # noqa: E402
from tree import Tree, blank_comments_and_literals  # noqa: E402

HEADER = "#pragma once\n"


class RuleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def found(self, rule):
        """(path, line, rule) of the rule's findings on the files written so far."""
        self.findings = sorted(rule.find(Tree(self.root)))
        return [(finding.path, finding.line, finding.rule) for finding in self.findings]


class IncludesTest(RuleTest):
    def test_own_folder_and_lower_floors_are_allowed(self):
        self.write("src/base/result.h", HEADER)
        self.write("src/kv/block.h", HEADER + '#include "base/result.h"\n')
        self.write("src/kv/tier/disk.h", HEADER + '#include "kv/block.h"\n')
        self.write("src/engine/loop.h", HEADER + '#include "kv/tier/disk.h"\n')
        self.assertEqual(self.found(rule_includes), [])

    def test_upward_include_fails(self):
        self.write("src/engine/loop.h", HEADER)
        self.write("src/kv/pool.h", HEADER + '\n#include "engine/loop.h"\n')
        self.assertEqual(self.found(rule_includes), [("src/kv/pool.h", 3, "include-floor")])
        self.assertIn("reaches upward: kv/ is on floor 1, engine/ on floor 3",
                      self.findings[0].wrong)
        self.assertIn("kv/ may include itself and base", self.findings[0].right)

    def test_sideways_include_fails_and_tests_are_no_exception(self):
        self.write("src/kernels/isa.h", HEADER)
        self.write("src/kv/pool_test.cc", '#include "kernels/isa.h"\n')
        self.assertEqual(self.found(rule_includes), [("src/kv/pool_test.cc", 1, "include-floor")])

    def test_folder_without_a_floor_fails(self):
        self.write("src/base/result.h", HEADER)
        self.write("src/misc/junk.h", HEADER + '#include "base/result.h"\n')
        self.assertEqual(self.found(rule_includes), [("src/misc/junk.h", 2, "include-floor")])

    def test_public_header_must_not_expose_ours(self):
        self.write("src/kv/pool.h", HEADER)
        self.write("include/ashlar/cache.h", HEADER + '#include "kv/pool.h"\n')
        self.assertEqual(self.found(rule_includes),
                         [("include/ashlar/cache.h", 2, "include-floor")])

    def test_example_must_keep_to_the_public_headers(self):
        self.write("src/kv/pool.h", HEADER)
        self.write("include/ashlar/cache.h", HEADER)
        self.write("examples/own.cc", '#include "ashlar/cache.h"\n#include "kv/pool.h"\n')
        self.assertEqual(self.found(rule_includes), [("examples/own.cc", 2, "include-floor")])

    def test_outer_folders_may_include_any_floor(self):
        self.write("src/server/server.h", HEADER)
        self.write("fuzz/server_fuzz.cc", '#include "server/server.h"\n')
        self.write("tests/support/wait.h", HEADER)
        self.write("tests/server_e2e.cc",
                   '#include "server/server.h"\n#include "tests/support/wait.h"\n')
        self.assertEqual(self.found(rule_includes), [])

    def test_production_code_must_not_use_doubles(self):
        self.write("src/gguf/testing/builder.h", HEADER)
        self.write("src/gguf/reader.cc", '#include "gguf/testing/builder.h"\n')
        self.write("src/model/weights_test.cc", '#include "gguf/testing/builder.h"\n')
        self.write("src/model/testing/tiny.cc", '#include "gguf/testing/builder.h"\n')
        self.assertEqual(self.found(rule_includes), [("src/gguf/reader.cc", 1, "include-testing")])

    def test_relative_unknown_and_angled_includes_of_ours_fail(self):
        self.write("src/kv/pool.h", HEADER)
        self.write("src/kv/a.cc", '#include "pool.h"\n')
        self.write("src/kv/b.cc", '#include "../kv/pool.h"\n')
        self.write("src/kv/c.cc", '#include "fmt/format.h"\n')
        self.write("src/kv/d.cc", "#include <kv/pool.h>\n")
        self.assertEqual(self.found(rule_includes),
                         [(f"src/kv/{name}.cc", 1, "include-form") for name in "abcd"])
        self.assertIn('"kv/pool.h"', self.findings[0].right)

    def test_include_order(self):
        self.write("src/base/log.h", HEADER)
        self.write("src/base/ids.h", HEADER)
        good = ('#include "base/log.h"\n\n#include <fcntl.h>\n#include <fmt/format.h>\n\n'
                '#include <map>\n\n#include "base/ids.h"\n\n#if X\n#include <immintrin.h>\n#endif\n')
        self.write("src/base/log.cc", good)
        self.write("src/base/log_test.cc", good)
        self.assertEqual(self.found(rule_includes), [])
        self.write("src/base/log.cc", '#include <map>\n\n#include "base/log.h"\n')
        self.write("src/base/log_test.cc",
                   '#include "base/log.h"\n\n#include "base/ids.h"\n\n#include <map>\n')
        self.write("src/base/x.cc", "#include <map>\n\n#include <fcntl.h>\n")
        self.assertEqual(self.found(rule_includes), [("src/base/log.cc", 1, "include-order"),
                                                     ("src/base/log_test.cc", 5, "include-order"),
                                                     ("src/base/x.cc", 3, "include-order")])

    def test_highway_sources_keep_the_order_highway_needs(self):
        self.write("src/kernels/add.h", HEADER)
        includes = '#include "hwy/foreach_target.h"\n#include "kernels/add.h"\n#include <map>\n'
        self.write("src/kernels/add.cc", '#define HWY_TARGET_INCLUDE "kernels/add.cc"\n' + includes)
        self.assertEqual(self.found(rule_includes), [])
        self.write("src/kernels/add.cc", includes)
        self.assertEqual(self.found(rule_includes), [("src/kernels/add.cc", 1, "include-order"),
                                                     ("src/kernels/add.cc", 3, "include-order")])

    def test_linking_upward_fails(self):
        self.write("src/kv/CMakeLists.txt",
                   "ashlar_library(kv SOURCES a.cc\n  DEPS ashlar_base ashlar_engine)\n")
        self.write("src/model/CMakeLists.txt",
                   "ashlar_test(model DEPS ashlar_gguf_testing)  # ashlar_apps\n")
        self.assertEqual(self.found(rule_includes), [("src/kv/CMakeLists.txt", 2, "link-floor")])


class ListedTest(RuleTest):
    def test_unlisted_source_and_test_fail(self):
        self.write("src/kv/CMakeLists.txt",
                   "ashlar_library(kv SOURCES pool.cc tier/disk.cc)  # lost.cc\n")
        for name in ("pool.cc", "tier/disk.cc", "lost.cc", "tier/lost.cc", "disk.cc"):
            self.write("src/kv/" + name)
        self.write("tests/CMakeLists.txt",
                   "add_test(NAME a COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/a_test.py)")
        self.write("tests/a_test.py")
        self.write("tests/b_test.py")
        self.assertEqual(self.found(rule_listed), [
            (path, 1, "listed") for path in
            ("src/kv/disk.cc", "src/kv/lost.cc", "src/kv/tier/lost.cc", "tests/b_test.py")])
        self.assertIn("add tier/lost.cc there", self.findings[2].right)

    def test_glob_fails(self):
        self.write("src/kv/CMakeLists.txt", "# file(GLOB\nfile(GLOB SOURCES *.cc)\n")
        self.assertEqual(self.found(rule_listed), [("src/kv/CMakeLists.txt", 2, "listed")])


class SizesTest(RuleTest):
    def test_file_limits(self):
        excuse = "// Oversize: one table, read as one\n"
        self.write("src/kv/fits.cc", "\n" * 500)
        self.write("src/kv/fits.h", "\n" * 300)
        self.write("src/kv/excused.cc", excuse + "\n" * 799)
        self.assertEqual(self.found(rule_sizes), [])
        self.write("src/kv/fits.cc", "\n" * 501)
        self.write("src/kv/fits.h", "\n" * 301)
        self.write("src/kv/excused.cc", excuse + "\n" * 800)
        self.write("src/kv/late.cc", "\n" * 490 + excuse + "\n" * 20)
        self.write("src/kv/mute.cc", "// Oversize:\n" + "\n" * 500)
        self.assertEqual(self.found(rule_sizes), [
            ("src/kv/excused.cc", 801, "file-size"), ("src/kv/fits.cc", 501, "file-size"),
            ("src/kv/fits.h", 301, "file-size"), ("src/kv/late.cc", 501, "file-size"),
            ("src/kv/mute.cc", 501, "file-size")])

    def test_function_limits_in_each_language(self):
        self.write("src/kv/a.cc", "void F() {\n" + "  G();\n" * 68 + "}\n")
        self.write("tests/a.py", "def f():\n" + "    g()\n" * 69)
        self.write("scripts/a.sh", "f() {\n" + "  g\n" * 68 + "}\n")
        self.assertEqual(self.found(rule_sizes), [])
        self.write("src/kv/a.cc", "namespace n {\nvoid F() {\n" + "  G();\n" * 69 + "}\n}\n")
        self.write("tests/a.py", "def f():\n" + "    g()\n" * 70)
        self.write("scripts/a.sh", "f() {\n" + "  g\n" * 69 + "}\n")
        self.assertEqual(self.found(rule_sizes), [
            ("scripts/a.sh", 1, "function-size"), ("src/kv/a.cc", 2, "function-size"),
            ("tests/a.py", 1, "function-size")])
        self.assertIn("F has 71 lines, 70 are allowed", self.findings[1].wrong)

    def test_function_with_a_reason_may_be_longer(self):
        head = "int x;\n// Oversize: a switch over every type\nvoid F() {\n"
        self.write("src/kv/a.cc", head + "  G();\n" * 118 + "}\n")
        self.assertEqual(self.found(rule_sizes), [])
        self.write("src/kv/a.cc", head + "  G();\n" * 119 + "}\n")
        self.assertEqual(self.found(rule_sizes), [("src/kv/a.cc", 3, "function-size")])

    def test_cpp_functions_are_found(self):
        code = """
namespace ashlar::kv {
namespace {
constexpr int kTable[] = {1, 2, 3};
const std::map<int, int> kMap{{1, 2}};
int Helper(int x) { return x; }
}  // namespace
struct Plain { int a = 1; std::vector<int> b{1, 2}; };
enum class Kind { kA, kB };
template <typename T> requires(sizeof(T) == 4)
class Pool final : public Base<T> {
 public:
  Pool(int a, int b)
      : a_{a}, b_{b} {
    const char* s = "}{";  // }
    char c = '{', d = 1'000;
  }
  bool operator==(const Pool&) const { return true; }
 private:
  struct Inner {
    void Method() noexcept {}
  };
};
#if X
void Either() {
#else
void Either(int) {
#endif
}
extern "C" {
int CFunction(void) {
  auto f = [](int x) { return R"(})"; };
}
}
TEST(PoolTest, States) {
  if (x) {
  }
}
}  // namespace ashlar::kv
"""
        self.assertEqual(list(rule_sizes.cpp_functions(code)), [
            ("Helper", 6, 6), ("Pool", 13, 17), ("operator==", 18, 18), ("Method", 21, 21),
            ("Either", 25, 29), ("CFunction", 31, 33), ("TEST", 35, 38)])

    def test_blanking_keeps_places(self):
        code = 'a /* {\n} */ b("}") c(\'"\');  // {\nd'
        self.assertEqual(blank_comments_and_literals(code),
                         "a     \n     b(   ) c(   );      \nd")


class DocsTest(RuleTest):
    def test_folder_without_readme_fails(self):
        self.write("src/kv/README.md", "# kv\n")
        self.write("src/kv/tier/disk.h", HEADER)
        self.assertEqual(self.found(rule_docs), [])
        self.write("src/net/CMakeLists.txt")
        self.write("scripts/run.sh")
        self.assertEqual(self.found(rule_docs), [("scripts/README.md", 1, "readme"),
                                                 ("src/net/README.md", 1, "readme")])

    def test_marks_need_a_reason(self):
        self.write("src/kv/README.md")
        self.write("src/kv/a.cc", 'mkstemp("aXXXXXX");\n// TODO(the disk tier): write it back\n')
        self.assertEqual(self.found(rule_docs), [])
        self.write("src/kv/a.cc", "// TODO: later\n// FIXME\n// TODO(me)\n")
        self.assertEqual(self.found(rule_docs), [("src/kv/a.cc", n, "marks") for n in (1, 2, 3)])

    def test_private_paths_fail(self):
        self.write("notes.md", "see ~/models, $HOME/x, ${BASE}/root/x and /usr/share\n")
        self.assertEqual(self.found(rule_docs), [])
        self.write("notes.md", "\nsee /home/me/models\n")
        self.assertEqual(self.found(rule_docs), [("notes.md", 2, "private-path")])

    def test_builds_name_no_host(self):
        self.write("scripts/README.md", "")
        self.write("scripts/a.sh", "curl http://127.0.0.1:8080/health\n")
        self.assertEqual(self.found(rule_docs), [])
        self.write("Makefile", "get:\n\tcurl https://models.example.org/a.gguf\n")
        self.assertEqual(self.found(rule_docs), [("Makefile", 2, "address")])

    def test_dead_links_fail(self):
        self.write("docs/README.md",
                   "[a](STYLE.md#floors) [b](../src) [c](https://example.org/x) [d](#here)\n")
        self.write("docs/STYLE.md")
        self.write("src/kv/README.md")
        self.assertEqual(self.found(rule_docs), [])
        self.write("docs/README.md", "[a](GONE.md)\n")
        self.assertEqual(self.found(rule_docs), [("docs/README.md", 1, "link")])


class HeadersTest(RuleTest):
    def configure(self):
        """As CMake would: one source, whose flags its headers share."""
        source = self.root / "src/kv/pool.cc"
        self.write("build/compile_commands.json", json.dumps([{
            "directory": str(self.root / "build"), "file": str(source),
            "command": f"/usr/bin/ccache /usr/bin/g++-12 -I{self.root}/src -std=c++20 -Wall "
                       f"-Werror -o pool.o -c {source}"}]))

    def found_by_compiling(self):
        findings = rule_headers.find(Tree(self.root), self.root / "build")
        return [(finding.path, finding.rule) for finding in findings]

    def test_header_without_guard_fails(self):
        self.write("src/kv/a.h", "// #pragma once\n")
        self.write("src/kv/simd-inl.h", "#if defined(A) == defined(HWY_TARGET_TOGGLE)\n#endif\n")
        findings = rule_headers.find(Tree(self.root), None)
        self.assertEqual([finding.path for finding in findings], ["src/kv/a.h"])

    def test_header_that_needs_another_fails_until_it_is_mended(self):
        self.configure()
        self.write("src/base/good.h", HEADER + "#include <cstdint>\nstd::uint8_t Good();\n")
        self.write("src/kv/bad.h", HEADER + "std::uint8_t Bad();\n")
        self.assertEqual(self.found_by_compiling(), [("src/kv/bad.h", "self-contained")])
        self.write("src/kv/bad.h",
                   HEADER + '#include "base/good.h"\ninline auto Bad() { return Good(); }\n')
        self.assertEqual(self.found_by_compiling(), [])

    def test_header_that_a_source_includes_first_is_left_to_the_build(self):
        self.configure()
        self.write("src/kv/bad.h", HEADER + "std::uint8_t Bad();\n")
        self.write("src/kv/pool.cc", '#include <cstdint>\n#include "kv/bad.h"\n')
        self.assertEqual(self.found_by_compiling(), [("src/kv/bad.h", "self-contained")])
        self.write("src/kv/pool.cc", '#include "kv/bad.h"\n#include <cstdint>\n')
        self.assertEqual(self.found_by_compiling(), [])

    def test_remembered_header_is_compiled_again_when_what_it_includes_changes(self):
        self.configure()
        self.write("src/base/low.h", HEADER + "struct Low {};\n")
        self.write("src/kv/high.h", HEADER + '#include "base/low.h"\ninline Low low;\n')
        self.assertEqual(self.found_by_compiling(), [])
        self.assertIn("base/low.h", (self.root / "build/tidy_headers.json").read_text())
        self.write("src/base/low.h", HEADER + "struct Renamed {};\n")
        self.assertEqual(self.found_by_compiling(), [("src/kv/high.h", "self-contained")])

    def test_missing_compile_commands_fail(self):
        self.write("src/kv/a.h", HEADER)
        os.makedirs(self.root / "build")
        self.assertEqual(self.found_by_compiling(), [("CMakeLists.txt", "self-contained")])


class AllTest(RuleTest):
    def test_every_rule_runs_and_a_finding_says_what_is_right(self):
        self.write("src/kv/CMakeLists.txt")
        self.write("src/kv/README.md")
        self.write("src/kv/a.h", '#include "kv/b.h"\n// TODO\n' + "\n" * 300)
        self.write("src/kv/lost.cc")
        count, findings = find_all(self.root)
        self.assertEqual(count, 4)
        self.assertEqual({finding.rule for finding in findings},
                         {"marks", "include-form", "listed", "file-size", "pragma-once"})
        self.assertTrue(all(finding.right for finding in findings))
        self.assertRegex(str(findings[0]), r"^src/kv/a\.h:1: \[include-form\] .+; .+")


if __name__ == "__main__":
    unittest.main()
