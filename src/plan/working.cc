#include "plan/working.h"

#include <fmt/format.h>

#include "base/byte_size.h"
#include "base/kv_codec.h"

namespace ashlar::plan {
namespace {

std::string Number(std::uint64_t value) { return FormatWithCommas(value); }

std::string Plural(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", Number(count), what, count == 1 ? "" : "s");
}

std::string LanesOf(const GroupNeed& group) {
  if (group.value_dim == 0) return fmt::format("{} x 1 latent", Plural(group.layers, "layer"));
  if (group.lanes % group.layers != 0) return Plural(group.lanes, "lane");
  return fmt::format("{} x {}", Plural(group.layers, "layer"),
                     Plural(group.lanes / group.layers, "kv head"));
}

// One token, where a token has whole bytes of its own: "80 layers x 8 kv heads x (128 + 128) x 2
// bytes"; where scales belong to tiles, a tile and a block.
void AddTokenLines(const GroupNeed& group, std::uint32_t block_tokens, const std::string& name,
                   std::vector<std::string>& lines) {
  const bool is_raw = group.open_block_bytes == 0;
  if (is_raw && (group.value_dim == 0 || group.key_codec == group.value_codec)) {
    const std::uint64_t elements = std::uint64_t{group.key_dim} + group.value_dim;
    const std::string dims = group.value_dim == 0
                                 ? fmt::format("{}", group.key_dim)
                                 : fmt::format("({} + {})", group.key_dim, group.value_dim);
    lines.push_back(fmt::format("{}a token: {} x {} x {} bytes = {} bytes", name, LanesOf(group),
                                dims, group.bytes_per_token / (elements * group.lanes),
                                Number(group.bytes_per_token)));
    return;
  }
  std::string tiles = fmt::format("{} x {} of K in {} are {} bytes", group.key_dim, block_tokens,
                                  group.key_codec, Number(group.key_tile_bytes));
  std::string sum = Number(group.key_tile_bytes);
  if (group.value_dim > 0) {
    tiles += fmt::format(", {} x {} of V in {} are {}", block_tokens, group.value_dim,
                         group.value_codec, Number(group.value_tile_bytes));
    sum = fmt::format("({} + {})", sum, Number(group.value_tile_bytes));
  }
  lines.push_back(fmt::format("{}tiles, with their scales: {}", name, tiles));
  lines.push_back(fmt::format("{}a block: {} x {} bytes = {} bytes, {} a token", name,
                              LanesOf(group), sum, Number(group.block_bytes),
                              Number(group.bytes_per_token)));
}

std::string SequenceLine(const GroupNeed& group, const Plan& plan) {
  const std::uint64_t tokens = plan.options.block_tokens;
  const Workload& workload = plan.options.workload;
  std::string text;
  const bool is_bounded =
      group.window > 0 && group.peak_blocks < (workload.context + tokens - 1) / tokens;
  if (is_bounded) {
    text = fmt::format("a sequence: a window of {} and a chunk of {} tokens touch {} at the most",
                       Number(group.window), Number(workload.chunk),
                       Plural(group.peak_blocks, "block"));
  } else {
    text = fmt::format("a sequence: {} tokens / {}, rounded up, are {}", Number(workload.context),
                       tokens, Plural(group.peak_blocks, "block"));
  }
  text += fmt::format(" x {} bytes", Number(group.block_bytes));
  if (group.open_blocks > 0) {
    text += fmt::format(", and {} open in {} of {} bytes", Number(group.open_blocks),
                        NameOf(kOpenKind), Number(group.open_block_bytes));
  }
  text += fmt::format(" = {} bytes", Number(group.peak_bytes()));
  if (group.held_blocks != group.peak_blocks) {
    text += fmt::format("; {} of them at its end", Plural(group.held_blocks, "block"));
  }
  return text;
}

}  // namespace

std::string CodecsOf(const GroupNeed& group) {
  if (group.value_codec.empty() || group.value_codec == group.key_codec) return group.key_codec;
  return fmt::format("{} + {}", group.key_codec, group.value_codec);
}

std::vector<std::string> Working(const Plan& plan) {
  const KvNeed& need = plan.chosen.need;
  const Workload& workload = plan.options.workload;
  std::vector<std::string> lines;
  for (const GroupNeed& group : need.groups) {
    const std::string name = need.groups.size() > 1 ? group.name + ", " : "";
    AddTokenLines(group, plan.options.block_tokens, name, lines);
    lines.push_back(name + SequenceLine(group, plan));
  }
  if (need.groups.size() > 1) {
    lines.push_back(fmt::format("all groups: {} bytes a token, {} bytes ({}) a sequence",
                                Number(need.bytes_per_token), Number(need.bytes_per_sequence),
                                FormatByteSize(need.bytes_per_sequence)));
  }
  if (workload.sequences > 1) {
    lines.push_back(fmt::format("{} sequences, sharing nothing: {} bytes ({})",
                                Number(workload.sequences), Number(need.total_bytes),
                                FormatByteSize(need.total_bytes)));
  }
  if (plan.arena_for_bytes) {
    lines.push_back(fmt::format("--kv-memory {}MiB holds them ({})", *plan.arena_for_bytes / kMiB,
                                FormatByteSize(*plan.arena_for_bytes)));
  } else {
    lines.push_back(
        "no --kv-memory holds them: there are more blocks than can be numbered; larger "
        "--block-tokens");
  }
  return lines;
}

}  // namespace ashlar::plan
