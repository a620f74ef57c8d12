#include "text/chat_template.h"

#include <ctime>
#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/limits.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"

namespace ashlar::text {
namespace {

std::chrono::local_seconds LocalNow() {
  const std::time_t now = std::time(nullptr);
  std::tm civil = {};
  localtime_r(&now, &civil);
  return std::chrono::local_seconds(
      std::chrono::seconds(static_cast<std::int64_t>(now) + civil.tm_gmtoff));
}

}  // namespace

struct ChatTemplate::Program {
  jinja::Program code;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  ASHLAR_ASSIGN(jinja::Program code, jinja::Parse(source, jinja::Limits()));
  return ChatTemplate(std::make_unique<const Program>(Program{std::move(code)}));
}

Result<std::string> ChatTemplate::Render(const nlohmann::ordered_json& context,
                                         const RenderOptions& options) const {
  jinja::Runtime runtime(jinja::Limits(), options.now ? *options.now : LocalNow());
  return jinja::Evaluator(program_->code, context, runtime).Run();
}

}  // namespace ashlar::text
