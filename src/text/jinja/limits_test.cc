// Each bound of limits.h: at it, and one above it.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "text/jinja/testing/render.h"

namespace ashlar::text::jinja {
namespace {

using nlohmann::ordered_json;
using testing::Render;

std::string Repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) {
    out += text;
  }
  return out;
}

void ExpectExhausted(const Result<std::string>& result, std::string_view part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(Limits, SourceBytes) {
  EXPECT_EQ(Render(std::string(kMaxSourceBytes, 'x'))->size(), kMaxSourceBytes);
  ExpectExhausted(Render(std::string(kMaxSourceBytes + 1, 'x')), "at most 262144");
}

TEST(Limits, NestingOfBrackets) {
  const auto nested = [](int depth) {
    return "{{ " + Repeat("[", depth) + "1" + Repeat("]", depth) + " | length }}";
  };
  EXPECT_TRUE(Render(nested(kMaxValueDepth)).ok());
  ExpectExhausted(Render(nested(kMaxValueDepth + 1)), "values are nested");
  Limits limits;
  limits.nesting = 20;
  // A block, and an expression inside each bracket; the filter adds one to the tree.
  EXPECT_TRUE(Render(nested(18), limits).ok());
  ExpectExhausted(Render(nested(19), limits), "nested more than 20 deep");
}

TEST(Limits, NestingOfEveryRecursionOfTheParser) {
  for (const char* opening :
       {"(", "[", "{1:", "-", "not ", "x[", "f(", "1 if 1 else ", "x is in [", "x|f("}) {
    const Result<std::string> result = Render("{{ " + Repeat(opening, 2000));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code == ErrorCode::kResourceExhausted ||
                  result.error().message.find("is missing") != std::string::npos,
              true)
        << opening << result.error().message;
  }
  for (const char* opening :
       {"{% if 1 %}", "{% for x in y %}", "{% set x %}", "{% with %}", "{% macro m() %}",
        "{% filter upper %}", "{% call f() %}", "{% generation %}", "{% if 1 %}{% else %}"}) {
    ExpectExhausted(Render(Repeat(opening, 500)), "nested more than 200 deep");
  }
}

TEST(Limits, LengthOfOperatorChains) {
  for (const char* link : {" + 1", " and 1", " or 1", " ** 1", "[0]", ".a", "|abs", "()"}) {
    EXPECT_EQ(Render("{{ 1" + Repeat(link, 5000) + " }}").error().code,
              ErrorCode::kResourceExhausted)
        << link;
  }
  EXPECT_EQ(*Render("{{ 1" + Repeat(" + 1", 190) + " }}"), "191");
  EXPECT_EQ(Render("{{ 1" + Repeat(" ~ 1", 5000) + " }}")->size(), 5001u);
  EXPECT_EQ(*Render("{{ 1" + Repeat(" < 2", 1) + " }}"), "True");
}

TEST(Limits, EvaluationDepth) {
  // Every call of the macro takes six levels: print, call, macro, if, print, call.
  const std::string recursion =
      "{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(N) }}";
  const auto with = [&recursion](int n) {
    std::string source = recursion;
    source.replace(source.find('N'), 1, std::to_string(n));
    return source;
  };
  EXPECT_TRUE(Render(with(150)).ok());
  ExpectExhausted(Render(with(100000)), "nested more than 1000 deep");
  Limits limits;
  limits.evaluation_depth = 3;
  EXPECT_EQ(*Render("{{ -(-1) }}", limits), "1");
  ExpectExhausted(Render("{{ -(-(-(1))) }}", limits), "nested more than 3 deep");
}

TEST(Limits, RecursionFitsASmallStack) {
  // The deepest nests of the parser and the evaluator, on a quarter of the usual stack. Frames are
  // several times larger with AddressSanitizer.
#ifdef __SANITIZE_ADDRESS__
  constexpr std::size_t kStackBytes = 16u << 20;
#else
  constexpr std::size_t kStackBytes = 2u << 20;
#endif
  const std::string deep_sum = "{% macro m() %}{{ " + Repeat("(1 + ", 90) + "m()" +
                               Repeat(")", 90) + " }}{% endmacro %}{{ m() }}";
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const auto body = [](void* source) -> void* {
    const Result<std::string> result = Render(*static_cast<const std::string*>(source));
    EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted) << result.error().message;
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, body, const_cast<std::string*>(&deep_sum)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Limits, ValueDepth) {
  const auto grow = [](int depth) {
    return "{% set ns = namespace(x=1) %}{% for i in range(" + std::to_string(depth) +
           ") %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | string | length }}";
  };
  EXPECT_EQ(*Render(grow(kMaxValueDepth)), std::to_string(2 * kMaxValueDepth + 1));
  ExpectExhausted(Render(grow(kMaxValueDepth + 1)), "values are nested more than 128 deep");
}

TEST(Limits, ValueDepthOfEveryThingThatHoldsAnother) {
  for (const char* grown :
       {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "dict(a=ns.x)", "[1] | map('default', ns.x)",
        "ns.x | map('string')", "[1] | batch(2, ns.x)", "cycler(ns.x)", "joiner(ns.x)",
        "[1] | select('in', ns.x)", "[ns.x] | groupby(0)", "{'a': ns.x}.items",
        "{'a': ns.x}.values()", "[ns.x].count"}) {
    const Result<std::string> result = Render(
        std::string("{% set ns = namespace(x=[1]) %}{% for i in range(2000) %}{% set ns.x = ") +
        grown + " %}{% endfor %}{{ 1 }}");
    EXPECT_FALSE(result.ok()) << grown;
    ExpectExhausted(result, "nested more than");
  }
}

TEST(Limits, ContextDepth) {
  ordered_json deep = 1;
  for (int i = 0; i < kMaxValueDepth; ++i) {
    ordered_json outer = ordered_json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  ordered_json context = ordered_json::object();
  context["x"] = deep;
  EXPECT_EQ(*Render("{{ x | length }}", context), "1");
  ordered_json deeper = ordered_json::array();
  deeper.push_back(context["x"]);
  context["x"] = deeper;
  ExpectExhausted(Render("{{ x | length }}", context), "values are nested");
  EXPECT_EQ(*Render("{{ 1 }}", context), "1") << "what a template does not use is not converted";
}

TEST(Limits, CyclesAreReleasedAndPrintAnError) {
  ExpectExhausted(Render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"),
                  "nested more than");
  EXPECT_EQ(*Render("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me[0].me | length }}"),
            "1");
  EXPECT_EQ(*Render("{% for x in [1] %}{% macro m() %}{{ x }}{% endmacro %}{% set k = m %}{{ k() "
                    "}}{% endfor %}"),
            "1");
  EXPECT_EQ(*Render("{% for x in [1] %}{{ loop.changed(loop) }}{% endfor %}"), "True");
}

TEST(Limits, Steps) {
  Limits limits;
  limits.steps = 1000;
  EXPECT_TRUE(Render("{% for i in range(100) %}{{ i }}{% endfor %}", limits).ok());
  ExpectExhausted(Render("{% for i in range(1000) %}{{ i }}{% endfor %}", limits),
                  "within 1000 steps");
  limits.steps = 100000;
  ExpectExhausted(
      Render("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
             limits),
      "within 100000 steps");
}

TEST(Limits, StepsOfExponentialValues) {
  // Each is twice the one before: 40 small lists stand for 2^40 numbers.
  const std::string doubling =
      "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}";
  Limits limits;
  limits.steps = 100000;
  for (const char* use : {"{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == [ns.x[0], ns.x[1]] }}",
                          "{{ ns.x < [ns.x[0], 2] }}", "{{ ns.x | string | length }}",
                          "{{ '%s' % [ns.x] }}", "{{ '{}'.format(ns.x) }}"}) {
    ExpectExhausted(Render(doubling + use, limits), "steps");
  }
}

TEST(Limits, StringBytes) {
  Limits limits;
  limits.string_bytes = 1000;
  EXPECT_EQ(Render("{{ 'x' * 1000 }}", limits)->size(), 1000u);
  for (const char* source : {"{{ 'x' * 1001 }}",
                             "{{ 'x' * 600 ~ 'x' * 600 }}",
                             "{{ 'x' * 600 + 'x' * 600 }}",
                             "{{ 'x' * 600 }}{{ 'x' * 600 }}",
                             "{{ 'x'.center(1001) }}",
                             "{{ 'x'.zfill(1001) }}",
                             "{{ 'x' | center(1001) }}",
                             "{{ '%1001d' % 1 }}",
                             "{{ '%*d' % (1001, 1) }}",
                             "{{ '{:1001}'.format(1) }}",
                             "{{ ('x' * 600).replace('', 'y') }}",
                             "{{ ('x' * 600) | replace('x', 'yy') }}",
                             "{{ ('x\n' * 300) | indent(9) }}",
                             "{{ ('x' * 600) | indent(600, true) }}",
                             "{{ ('x' * 600, 'x' * 600) | join }}",
                             "{{ ','.join(['x' * 600, 'x' * 600]) }}",
                             "{{ [1] | tojson(indent=1000) }}",
                             "{{ ('<' * 600) | escape }}",
                             "{{ (' ' * 600) | urlencode }}",
                             "{% set x %}{{ 'x' * 600 }}{{ 'x' * 600 }}{% endset %}",
                             "{{ range(1000) | list | string }}",
                             "{{ ['x' * 600, 'x' * 600] | string }}",
                             "{{ ('\t' * 200).expandtabs() }}",
                             "{{ ('ß' * 400).upper() ~ 'ŉ' * 400 }}",
                             "{{ ('%s' * 40) % (('x' * 30,) * 40) }}",
                             "{{ ('{0}' * 40).format('x' * 30) }}"}) {
    ExpectExhausted(Render(source, limits), "");
  }
}

TEST(Limits, RepetitionBeyondAllNumbers) {
  for (const char* source :
       {"{{ 'x' * 170141183460469231731687303715884105727 }}", "{{ [1] * 99999999999999999999 }}",
        "{{ 'x'.ljust(99999999999999999999) }}", "{{ '%99999999999999999999d' % 1 }}",
        "{{ '{:99999999999}'.format('x') }}", "{{ 'a' | indent(99999999999999) }}",
        "{{ '{:.9999999999f}'.format(1.0) }}", "{{ [1] | batch(99999999999, 0) | list }}",
        "{{ 'x'.expandtabs(99999999999) }}", "{{ [] | slice(99999999999) | list }}"}) {
    ExpectExhausted(Render(source), "");
  }
  EXPECT_EQ(*Render("{{ '' * 99999999999999999999 }}|{{ [] * 99999999999999999999 }}"), "|[]");
}

TEST(Limits, LiveBytes) {
  Limits limits;
  limits.live_bytes = 100000;
  const std::string keep =
      "{% set ns = namespace(l=[]) %}{% for i in range(N) %}{% set ns.l = ns.l + ['x' * 1000] %}{% "
      "endfor %}";
  const auto with = [&keep](int n) {
    std::string source = keep;
    source.replace(source.find('N'), 1, std::to_string(n));
    return source;
  };
  EXPECT_TRUE(Render(with(60), limits).ok());
  ExpectExhausted(Render(with(120), limits), "need more than 100000 bytes");
  // What is dropped does not count.
  EXPECT_TRUE(
      Render("{% for i in range(1000) %}{% set x = 'x' * 1000 %}{% endfor %}", limits).ok());
  ExpectExhausted(Render("{{ range(90000) | list }}", limits), "");
  ExpectExhausted(Render("{{ ('a,' * 2000).split(',') }}", limits), "");
}

TEST(Limits, RangeItems) {
  EXPECT_EQ(*Render("{{ range(100000) | length }}"), "100000");
  ExpectExhausted(Render("{{ range(100001) | length }}"), "at most 100000");
  ExpectExhausted(Render("{{ range(0, 99999999999999999999999999) }}"), "at most 100000");
}

TEST(Limits, SearchingIsLinear) {
  // Quadratic for a naive search: 100 KB of 'a', looking for 50 KB of 'a' and a 'b'.
  const std::string setup =
      "{% set t = 'a' * 100000 %}{% set w = 'a' * 50000 + 'b' %}{% set v = 'b' + 'a' * 50000 %}";
  EXPECT_EQ(*Render(setup + "{{ w in t }}{{ t.find(w) }}{{ t.rfind(v) }}{{ t.split(w) | length "
                            "}}{{ t.rsplit(v) | length }}"
                            "{{ t.count(w) }}{{ t.replace(w, '') | length }}{{ t.partition(w)[1] "
                            "}}{{ t.rpartition(v)[1] }}"),
            "False-1-1110100000");
}

}  // namespace
}  // namespace ashlar::text::jinja
