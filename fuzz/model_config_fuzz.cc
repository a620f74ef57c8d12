// A model's config.json, or a registry of them: what is read is planned, and the plan's sums hold.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "plan/config_fields.h"
#include "plan/config_reader.h"
#include "plan/plan.h"
#include "plan/registry.h"
#include "plan/report.h"

namespace ashlar::plan {
namespace {

void CheckPlan(const Plan& plan) {
  const PlanOptions& options = plan.options;
  for (const CodecRow& row : plan.codecs) {
    const KvNeed& need = row.need;
    ASHLAR_CHECK(need.held_bytes <= need.bytes_per_sequence);
    ASHLAR_CHECK(need.total_bytes == need.bytes_per_sequence * options.workload.sequences);
    ASHLAR_CHECK(need.total_bytes <= kMaxKvBytes);
    std::uint64_t sum = 0;
    std::uint64_t open = 0;
    for (const GroupNeed& group : need.groups) {
      ASHLAR_CHECK(group.held_blocks <= group.peak_blocks);
      sum += group.peak_bytes();
      open += group.open_blocks * group.open_block_bytes;
    }
    ASHLAR_CHECK(sum == need.bytes_per_sequence);
    // Without windows and open blocks nobody needs more.
    ASHLAR_CHECK(need.bytes_per_sequence <=
                 (options.workload.context + options.block_tokens) * need.bytes_per_token + open);
    ASHLAR_CHECK(*row.sequences == 0 ||
                 need.bytes_per_sequence <= *plan.arena_bytes / *row.sequences);
  }
  ASHLAR_CHECK(ParseJson(JsonReport(plan)).ok());
  ASHLAR_CHECK(!TextReport(plan).empty());
}

void Exercise(std::string_view text) {
  const Result<Geometry> geometry = ParseConfig(text, "fuzz", "'fuzz'");
  if (geometry.ok()) {
    const Result<Plan> plan = MakePlan(
        {.geometry = *geometry, .source = "config"},
        {.codec = *model::ParseKvCodecSpec("balanced"),
         .workload = {.context = geometry->context > 0 ? 0 : std::uint64_t{5000}, .sequences = 3},
         .arena_bytes = std::uint64_t{1} << 32});
    if (plan.ok()) CheckPlan(*plan);
  } else {
    ASHLAR_CHECK(geometry.error().message.size() < 2000);
  }
  const Result<Registry> registry = Registry::Parse(text, "'fuzz'");
  if (!registry.ok()) return;
  for (const std::string& name : registry->names()) {
    const Result<Geometry> found = registry->Find(name);
    ASHLAR_CHECK(found.ok() || found.error().code != ErrorCode::kNotFound);
  }
}

}  // namespace
}  // namespace ashlar::plan

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ashlar::plan::Exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
