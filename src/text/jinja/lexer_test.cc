#include "text/jinja/lexer.h"

#include <gtest/gtest.h>

namespace ashlar::text::jinja {
namespace {

// Kinds as letters: d(ata) b(lock begin) B(lock end) v V n(ame) s(tring) #(number) o(perator)
// $(end).
std::string Shape(std::string_view source) {
  const Result<std::vector<Token>> tokens = Tokenize(source, Limits());
  if (!tokens.ok()) {
    return tokens.error().message;
  }
  std::string shape;
  for (const Token& token : *tokens) {
    shape += "dbBvVns#o$"[static_cast<std::size_t>(token.kind)];
  }
  return shape;
}

TEST(Lexer, CutsTagsIntoTokens) {
  EXPECT_EQ(Shape("a {{ x.y | f('s', 1.5) }} b"), "dvnononoso#oVd$");
  EXPECT_EQ(Shape("{% if a //b %}{% endif %}"), "bnnonBbnB$");
  EXPECT_EQ(Shape("{# all #}"), "$");
  EXPECT_EQ(Shape("{% raw %}{{ x }}{% endraw %}"), "d$");
}

TEST(Lexer, BracketsHideTheEndOfATag) {
  EXPECT_EQ(Shape("{{ {'a': {}} }}"), "vosooooV$");
  EXPECT_EQ(Shape("{{ {} }}}"), "vooVd$");
  EXPECT_EQ(Shape("{{ (1 }}"), "line 1: unexpected '}', expected ')'");
}

TEST(Lexer, TokensKnowTheirLines) {
  const std::vector<Token> tokens = *Tokenize("a\n{{ x\n+\n'b\nc' }}\n{{ y }}", Limits());
  std::vector<int> lines;
  for (const Token& token : tokens) {
    lines.push_back(token.line);
  }
  EXPECT_EQ(lines, (std::vector<int>{1, 2, 2, 3, 4, 5, 5, 6, 6, 6, 6}));
}

TEST(Lexer, IntegersReachTo127Bits) {
  EXPECT_TRUE(Tokenize("{{ 170141183460469231731687303715884105727 }}", Limits()).ok());
  EXPECT_EQ(Tokenize("{{ 170141183460469231731687303715884105728 }}", Limits()).error().code,
            ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ashlar::text::jinja
