// Chat templates: the Jinja subset that model files carry (tokenizer.chat_template), rendered
// exactly as the reference engine (jinja2 with trim_blocks, lstrip_blocks and the loop controls
// extension) does.
//
// A template is hostile input: parsing and rendering are bounded (source bytes, nesting, steps,
// output bytes), and what the subset does not know is an error that names it and its line.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::text {

struct RenderOptions {
  // The civil time that strftime_now() tells; the machine's local time when empty.
  std::optional<std::chrono::local_seconds> now;
};

// Immutable after Parse; Render may be called from any thread at once.
class ChatTemplate {
 public:
  // Errors: kInvalidArgument (syntax, with line), kUnsupported (a tag, filter, test or function
  // outside the subset, with line), kResourceExhausted (a limit, named).
  static Result<ChatTemplate> Parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders with the keys of `context` (an object) as variables: messages, add_generation_prompt,
  // bos_token, eos_token, tools, ... Errors as above; raise_exception('...') in a template gives
  // kInvalidArgument with its text.
  Result<std::string> Render(const nlohmann::ordered_json& context,
                             const RenderOptions& options = {}) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

}  // namespace ashlar::text
