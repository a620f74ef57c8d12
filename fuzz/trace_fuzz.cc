// A trace: what is read is a request within bounds, in order; what we write we read again; and
// tokens can be made of it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "simulate/cost_model.h"
#include "simulate/tokens.h"
#include "trace/lines.h"
#include "trace/reader.h"

namespace ashlar::trace {
namespace {

constexpr std::uint64_t kBlockTokens = 4;
constexpr std::uint64_t kMostMade = 4096;  // tokens

std::unique_ptr<Reader> Open(const std::string& text, const ReaderOptions& options) {
  return std::make_unique<Reader>(std::make_unique<std::istringstream>(text), "fuzz", options);
}

void CheckRequest(const Request& request, std::uint64_t number) {
  ASHLAR_CHECK(request.timestamp_ms >= 0 && request.input_tokens >= 1);
  ASHLAR_CHECK(request.input_tokens <= kMaxTokens && request.max_tokens <= kMaxTokens);
  ASHLAR_CHECK(request.output_tokens <= request.max_tokens);
  const std::uint64_t tokens = request.input_tokens + request.output_tokens;
  if (!request.prefixes.empty()) {
    ASHLAR_CHECK(request.prefixes.size() == tokens && request.hash_ids.empty());
    Request again;
    ASHLAR_CHECK(ReadJsonLine(FormatLine(request), kBlockTokens, again).ok());
    ASHLAR_CHECK(again.prefixes == request.prefixes);
    ASHLAR_CHECK(again.timestamp_ms == request.timestamp_ms);
  }
  if (tokens > kMostMade) return;
  std::vector<TokenId> made;
  simulate::MakeTokens(request, number, kBlockTokens, made);
  ASHLAR_CHECK(made.size() == tokens);
}

void Exercise(const std::string& text) {
  const auto reader = Open(text, {.block_tokens = kBlockTokens, .on_bad = OnBadLine::kSkip});
  Request request;
  double last_ms = 0;
  for (;;) {
    const Result<bool> next = reader->Next(request);
    ASHLAR_CHECK(next.ok() || reader->requests() == 0);
    if (!next.ok() || !*next) break;
    ASHLAR_CHECK(request.timestamp_ms >= last_ms);
    last_ms = request.timestamp_ms;
    CheckRequest(request, reader->requests());
  }
  const auto strict = ReadAll(*Open(text, {.block_tokens = kBlockTokens}));
  const bool is_clean = reader->skipped() == 0 && reader->requests() > 0;
  ASHLAR_CHECK(strict.ok() == is_clean);
  if (strict.ok()) ASHLAR_CHECK(strict->size() == reader->requests());
  if (!strict.ok()) ASHLAR_CHECK(strict.error().message.size() < 1000);

  const auto cost = simulate::CostModel::Parse(text, "fuzz", {.flops_per_token = 1});
  if (!cost.ok()) return;
  const simulate::StepWork work = {.tokens = 7, .sequences = 2, .decode_pairs = 9};
  ASHLAR_CHECK(cost->StepNs(work) >= 0);
}

}  // namespace
}  // namespace ashlar::trace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ashlar::trace::Exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
