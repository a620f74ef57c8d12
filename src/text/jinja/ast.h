// A parsed template: expressions, statements, and the names they use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/scope.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kConstant,   // value
  kName,       // name
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value...
  kAttribute,  // children[0] . text
  kItem,       // children[0] [ children[1] ]
  kSlice,      // children[0] [ children[1] : children[2] : children[3] ], each maybe null
  kCall,       // children[0] ( call )
  kFilter,  // children[0] | text ( call ); children[0] is null in `{% filter %}`: the block's text
  kTest,    // children[0] is text ( call )
  kNot,     // children[0]
  kNegative,     // children[0]
  kPositive,     // children[0]
  kArithmetic,   // children[0] op children[1]
  kConcat,       // children joined by ~
  kAnd,          // children[0], children[1]
  kOr,           // children[0], children[1]
  kCompare,      // children[0] comparisons[0] children[1] comparisons[1] children[2]...
  kConditional,  // children[1] if children[0] else children[2] (maybe null)
};

enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

// The arguments of a call, a filter or a test.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *args, maybe null
  ExpressionPtr more_named;       // **kwargs, maybe null
};

struct Expression {
  ExpressionKind kind;
  int line = 1;
  int depth = 1;  // of the tree below; at most Limits::nesting
  Value value;
  NameId name = -1;
  std::string text;
  Arithmetic arithmetic = Arithmetic::kAdd;
  std::vector<Comparison> comparisons;
  std::vector<ExpressionPtr> children;
  std::unique_ptr<CallArguments> call;
};

// What `set` and `for` assign to: a name, a name's attribute (a namespace's), or several targets.
struct Target {
  NameId name = -1;
  std::string attribute;
  std::vector<Target> parts;  // when it is a tuple
  bool is_tuple = false;
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Block = std::vector<StatementPtr>;

enum class StatementKind {
  kText,         // text
  kPrint,        // expression
  kIf,           // branches
  kFor,          // target in expression, condition (maybe null), body, else_body
  kSet,          // target = expression
  kSetBlock,     // target = body, through the filters of expression (maybe null)
  kMacro,        // macro
  kCallBlock,    // expression (a kCall) with macro as its caller
  kFilterBlock,  // body through the filters of expression
  kWith,         // assignments, body
  kScope,        // body, with variables of its own: `generation`
  kBreak,
  kContinue,
};

struct Macro {
  std::string name;
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Block body;
  bool takes_varargs = false;  // the body uses `varargs`
  bool takes_kwargs = false;
  bool takes_caller = false;
};

struct Statement {
  StatementKind kind;
  int line = 1;
  std::string text;
  Value constant;  // of kText: the text, made once
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  std::vector<std::pair<ExpressionPtr, Block>> branches;  // a null condition is `else`
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
  Block else_body;
  bool is_recursive = false;
  std::unique_ptr<Macro> macro;
};

struct Program {
  Block body;
  std::vector<std::string> names;  // by NameId
  // The names the evaluator itself sets.
  NameId loop = -1;
  NameId caller = -1;
  NameId varargs = -1;
  NameId kwargs = -1;
};

}  // namespace ashlar::text::jinja
