#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ashlar::text {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kChat =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

ordered_json Context() {
  return {
      {"bos_token", "<s>"},
      {"add_generation_prompt", true},
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Hi é"}}}}};
}

TEST(ChatTemplate, RendersMessages) {
  const Result<ChatTemplate> chat = ChatTemplate::Parse(kChat);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(*chat->Render(Context()), "<s><system>Be brief.\n<user>Hi é\n<assistant>");
}

TEST(ChatTemplate, KeepsTheOrderOfKeys) {
  const ChatTemplate chat = *ChatTemplate::Parse("{{ tool | tojson }}");
  const ordered_json context = ordered_json::parse(R"({"tool": {"z": 1, "a": {"y": 2, "b": 3}}})");
  EXPECT_EQ(*chat.Render(context), R"({"z": 1, "a": {"y": 2, "b": 3}})");
}

TEST(ChatTemplate, TellsTheTimeItIsGiven) {
  const ChatTemplate chat = *ChatTemplate::Parse("{{ strftime_now('%d %b %Y') }}");
  const auto now = std::chrono::local_days(std::chrono::year(2024) / 2 / 29);
  EXPECT_EQ(*chat.Render(ordered_json::object(), {.now = now}), "29 Feb 2024");
  // Of the machine's own time only the form is known.
  EXPECT_EQ(chat.Render(ordered_json::object())->size(), std::string("29 Feb 2024").size());
}

TEST(ChatTemplate, ErrorsOfParseAndRender) {
  EXPECT_EQ(ChatTemplate::Parse("{% include 'x' %}").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(ChatTemplate::Parse("{{").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ChatTemplate::Parse(std::string(300000, 'x')).error().code,
            ErrorCode::kResourceExhausted);
  const ChatTemplate chat = *ChatTemplate::Parse("{{ raise_exception('no ' ~ what) }}");
  const Result<std::string> text = chat.Render({{"what", "images"}});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(text.error().message, "no images");
}

TEST(ChatTemplate, RendersOnSeveralThreadsAtOnce) {
  const ChatTemplate chat = *ChatTemplate::Parse(kChat);
  const std::string expected = *chat.Render(Context());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(*chat.Render(Context()), expected);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(ChatTemplate, MovesKeepTheProgram) {
  ChatTemplate first = *ChatTemplate::Parse("{{ 1 + 1 }}");
  ChatTemplate second = std::move(first);
  first = std::move(second);
  EXPECT_EQ(*first.Render(ordered_json::object()), "2");
}

}  // namespace
}  // namespace ashlar::text
