// What the pieces of one render share: its budget (steps, depth, live bytes), makers of values that
// obey the limits, and the time that strftime_now() tells. One thread, one render.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace ashlar::text::jinja {

class Namespace;
class Scope;

// The two errors templates make. Arguments as for fmt::format.
template <typename... Args>
[[nodiscard]] Error Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <typename... Args>
[[nodiscard]] Error Unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}
template <typename... Args>
[[nodiscard]] Error Exhausted(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kResourceExhausted, format, std::forward<Args>(args)...);
}

class Runtime {
 public:
  Runtime(const Limits& limits, std::chrono::local_seconds now)
      : limits_(limits), steps_left_(limits.steps), now_(now) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }
  std::chrono::local_seconds now() const { return now_; }

  Status Spend(std::uint64_t steps = 1) {
    if (steps > steps_left_) [[unlikely]] {
      return StepsExhausted();
    }
    steps_left_ -= steps;
    return {};
  }
  Status SpendBytes(std::size_t bytes) { return Spend(1 + bytes / kBytesPerStep); }
  // An error when a string of `bytes` would be too long; ask before making a large one.
  Status CheckStringBytes(std::size_t bytes) const;

  // Counts one level of recursion until it dies.
  class Level {
   public:
    explicit Level(int* depth) : depth_(depth) { ++*depth_; }
    Level(Level&& other) noexcept : depth_(std::exchange(other.depth_, nullptr)) {}
    Level& operator=(Level&&) = delete;
    ~Level() {
      if (depth_ != nullptr) {
        --*depth_;
      }
    }

   private:
    int* depth_;
  };
  Result<Level> Enter();

  Result<Value> String(std::string bytes, TextKind kind = TextKind::kPlain);
  // A string that is markup when `like` is.
  Result<Value> StringLike(const Value& like, std::string bytes) {
    return String(std::move(bytes), like.text().kind);
  }
  Result<Value> List(std::vector<Value> items) {
    return MakeSequence(std::move(items), SequenceKind::kList);
  }
  Result<Value> Tuple(std::vector<Value> items) {
    return MakeSequence(std::move(items), SequenceKind::kTuple);
  }
  Result<Value> MakeSequence(std::vector<Value> items, SequenceKind kind);
  // Keys must be IsKey().
  Result<Value> MakeDict(Entries entries);
  // An iterator that asks `next`; `depth`: of the deepest value that `next` holds.
  using NextFunction = std::function<Result<std::optional<Value>>(Runtime&)>;
  Result<Value> MakeIterator(NextFunction next, int depth);
  // An error when an object that holds a value of depth `depth` would be too deep.
  Status CheckDepth(int depth) const;
  Result<Charge> Hold(std::size_t bytes);

  // The error that is on its way up has said where it arose, or must not say so.
  bool is_error_located = false;

  // Things that may take part in cycles of references; they are emptied when the render ends.
  void Keep(std::shared_ptr<Namespace> name_space) { namespaces_.push_back(std::move(name_space)); }
  void Keep(std::shared_ptr<Scope> scope) { scopes_.push_back(std::move(scope)); }

 private:
  Error StepsExhausted() const;

  const Limits limits_;
  std::uint64_t steps_left_;
  std::size_t live_bytes_ = 0;
  int depth_ = 0;
  std::chrono::local_seconds now_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> scopes_;
};

// An iterator over a value; an error ("'int' object is not iterable") when it has none.
Result<std::shared_ptr<Iterator>> Iterate(Runtime& runtime, const Value& value);
// All that an iterator over `value` yields.
Result<std::vector<Value>> Collect(Runtime& runtime, const Value& value);

}  // namespace ashlar::text::jinja
