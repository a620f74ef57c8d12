#include "simulate/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace ashlar::simulate {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMaxNs = 1e15;  // of one step: 11 days
constexpr double kMaxPerS = 1e24;
constexpr std::size_t kMaxRows = 4096;

// As their makers publish them: dense 16-bit FLOP/s with 32-bit sums, and bytes/s of memory. What a
// step takes besides and what of the peaks is reached are plain assumptions.
struct NamedDevice {
  std::string_view name;
  double flops_per_s = 0;
  double bytes_per_s = 0;
};
constexpr std::array kDevices = {
    NamedDevice{"a100-80g", 312e12, 2.039e12}, NamedDevice{"h100", 989e12, 3.35e12},
    NamedDevice{"h200", 989e12, 4.8e12}, NamedDevice{"l4", 121e12, 0.3e12},
    NamedDevice{"rtx-4090", 165e12, 1.008e12}};
constexpr double kDeviceStepNs = 200'000;
constexpr double kDeviceFlopsShare = 0.5;
constexpr double kDeviceBytesShare = 0.7;

// Sum over `count` queries from `position` on of the keys that each sees, at most `reach`.
double Pairs(double position, double count, double reach) {
  const double all = count * position + count * (count + 1) / 2;
  if (reach == 0 || position + count <= reach) return all;
  const double below = std::max(0.0, reach - position);  // queries that see fewer
  return below * position + below * (below + 1) / 2 + (count - below) * reach;
}

// Reads the fields of one object, each at most once; what is left is refused.
class Fields {
 public:
  Fields(const Json& object, std::string_view name) : object_(object), name_(name) {}

  Status Number(const char* field, double most, double& value) {
    ++known_;
    const auto found = object_.find(field);
    if (found == object_.end()) {
      --known_;
      return {};
    }
    value = found->is_number() ? found->get<double>() : -1;
    if (value >= 0 && value <= most) return {};
    return MakeError(ErrorCode::kCorrupt, "{}: '{}' is {}; it must be a number from 0 to {:g}",
                     name_, field, Shown(*found), most);
  }
  // A field that is read elsewhere.
  bool Has(const char* field) {
    const bool has = object_.contains(field);
    known_ += has ? 1 : 0;
    names_.emplace_back(field);
    return has;
  }
  Status End(std::initializer_list<const char*> numbers) const {
    if (object_.size() == known_) return {};
    for (const auto& [field, value] : object_.items()) {
      const bool is_known = std::ranges::find(numbers, field) != numbers.end() ||
                            std::ranges::find(names_, field) != names_.end();
      if (is_known) continue;
      std::string all;
      for (const char* const one : numbers) all += fmt::format(" {}", one);
      for (const std::string& one : names_) all += fmt::format(" {}", one);
      return MakeError(ErrorCode::kCorrupt, "{}: there is no field '{}'; there are{}", name_,
                       field.substr(0, 60), all);
    }
    return {};
  }
  static std::string Shown(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
  }

 private:
  const Json& object_;
  const std::string_view name_;
  std::size_t known_ = 0;
  std::vector<std::string> names_;
};

Result<std::vector<CostModel::Row>> ParseRows(const Json& rows, std::string_view name) {
  std::vector<CostModel::Row> parsed;
  const auto bad = [&](const Json& what) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: 'rows_ns' has {}; it must be a list of at most {} pairs [tokens, ns], by "
                     "tokens, such as [[1, 2e6], [64, 3e6]]",
                     name, Fields::Shown(what), kMaxRows);
  };
  if (!rows.is_array() || rows.size() > kMaxRows) return bad(rows);
  for (const Json& row : rows) {
    const bool is_pair =
        row.is_array() && row.size() == 2 && row[0].is_number() && row[1].is_number();
    if (!is_pair) return bad(row);
    const CostModel::Row one = {.tokens = row[0].get<double>(), .ns = row[1].get<double>()};
    const bool is_next = parsed.empty() ? one.tokens > 0 : one.tokens > parsed.back().tokens;
    if (!is_next || !(one.tokens <= 1e9) || !(one.ns >= 0 && one.ns <= kMaxNs)) return bad(row);
    parsed.push_back(one);
  }
  return parsed;
}

Result<CostModel::Device> ParseDevice(const Json& object, std::string_view name) {
  if (!object.is_object()) {
    return MakeError(ErrorCode::kCorrupt, "{}: 'device' is {}; it must be an object", name,
                     Fields::Shown(object));
  }
  CostModel::Device device;
  Fields fields(object, name);
  fields.Has("name");
  ASHLAR_TRY(fields.Number("step_ns", kMaxNs, device.step_ns));
  ASHLAR_TRY(fields.Number("flops_per_s", kMaxPerS, device.flops_per_s));
  ASHLAR_TRY(fields.Number("bytes_per_s", kMaxPerS, device.bytes_per_s));
  ASHLAR_TRY(fields.Number("flops_share", 1, device.flops_share));
  ASHLAR_TRY(fields.Number("bytes_share", 1, device.bytes_share));
  ASHLAR_TRY(fields.End({"step_ns", "flops_per_s", "bytes_per_s", "flops_share", "bytes_share"}));
  if (device.flops_per_s * device.flops_share < 1 || device.bytes_per_s * device.bytes_share < 1) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: a device needs 'flops_per_s' and 'bytes_per_s' above 0, and shares of "
                     "them above 0",
                     name);
  }
  return device;
}

double RowsNs(const std::vector<CostModel::Row>& rows, double tokens) {
  if (rows.empty() || tokens == 0) return 0;
  if (rows.size() == 1) return rows[0].ns;
  if (tokens <= rows[0].tokens) return rows[0].ns;
  const auto above = std::ranges::upper_bound(rows, tokens, {}, &CostModel::Row::tokens);
  const auto upper = above == rows.end() ? std::prev(above) : above;
  const auto lower = std::prev(upper);
  const double slope = (upper->ns - lower->ns) / (upper->tokens - lower->tokens);
  return std::max(0.0, lower->ns + slope * (tokens - lower->tokens));
}

}  // namespace

double ModelWork::WeightBytes(double tokens) const {
  return weight_bytes + expert_bytes * (1 - std::pow(1 - expert_share, tokens));
}

StepMeter::StepMeter(const kv::KvLayout& layout) {
  double lanes = 0;
  for (const kv::LaneGroup& group : layout.groups()) {
    const auto count = static_cast<double>(group.spec().lanes.size());
    lanes += count;
    groups_.push_back({.reach = group.has_window() ? group.spec().window + group.spec().sinks : 0,
                       .share = count,
                       .bytes_per_token = static_cast<double>(group.bytes_per_token())});
  }
  for (Group& group : groups_) group.share /= lanes;
}

StepWork StepMeter::WorkOf(const sched::StepPlan& plan) const {
  StepWork work = {.tokens = plan.tokens, .sequences = plan.items.size()};
  for (const sched::StepItem& item : plan.items) {
    const auto position = static_cast<double>(item.position);
    const auto tokens = static_cast<double>(item.tokens);
    for (const Group& group : groups_) {
      const auto reach = static_cast<double>(group.reach);
      const double pairs = Pairs(position, tokens, reach) * group.share;
      (item.is_decode ? work.decode_pairs : work.prefill_pairs) += pairs;
      const double read = reach == 0 ? position : std::min(position, reach);
      work.kv_bytes += (read + tokens) * group.bytes_per_token;
    }
  }
  return work;
}

CostModel CostModel::Of(Measured measured, double request_ns) {
  CostModel cost;
  cost.measured_ = std::move(measured);
  cost.request_ns_ = std::llround(request_ns);
  return cost;
}

CostModel CostModel::Of(const Device& device, const ModelWork& work, double request_ns) {
  CostModel cost;
  cost.is_device_ = true;
  cost.device_ = device;
  cost.work_ = work;
  cost.request_ns_ = std::llround(request_ns);
  return cost;
}

std::optional<CostModel::Device> CostModel::FindDevice(std::string_view name) {
  for (const auto& [known, flops_per_s, bytes_per_s] : kDevices) {
    if (name != known) continue;
    return Device{.step_ns = kDeviceStepNs,
                  .flops_per_s = flops_per_s,
                  .bytes_per_s = bytes_per_s,
                  .flops_share = kDeviceFlopsShare,
                  .bytes_share = kDeviceBytesShare};
  }
  return std::nullopt;
}

std::string CostModel::DeviceNames() {
  std::string names;
  for (const NamedDevice& device : kDevices) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", device.name);
  }
  return names;
}

Result<CostModel> CostModel::Parse(std::string_view json, std::string_view name,
                                   const ModelWork& work) {
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) {
    return MakeError(ErrorCode::kCorrupt, "{}: it is not a JSON object", name);
  }
  Fields fields(object, name);
  Measured measured;
  double request_ns = 0;
  fields.Has("name");
  fields.Has("fit");  // how well it fits, for people
  ASHLAR_TRY(fields.Number("request_ns", kMaxNs, request_ns));
  if (fields.Has("device")) {
    ASHLAR_TRY(fields.End({"request_ns"}));
    ASHLAR_ASSIGN(const Device device, ParseDevice(object["device"], name));
    return Of(device, work, request_ns);
  }
  ASHLAR_TRY(fields.Number("step_ns", kMaxNs, measured.step_ns));
  ASHLAR_TRY(fields.Number("prefill_pair_ns", kMaxNs, measured.prefill_pair_ns));
  ASHLAR_TRY(fields.Number("decode_pair_ns", kMaxNs, measured.decode_pair_ns));
  ASHLAR_TRY(fields.Number("sequence_ns", kMaxNs, measured.sequence_ns));
  ASHLAR_TRY(fields.Number("kv_byte_ns", kMaxNs, measured.kv_byte_ns));
  if (fields.Has("rows_ns")) {
    ASHLAR_ASSIGN(measured.rows_ns, ParseRows(object["rows_ns"], name));
  }
  ASHLAR_TRY(fields.End(
      {"request_ns", "step_ns", "prefill_pair_ns", "decode_pair_ns", "sequence_ns", "kv_byte_ns"}));
  return Of(std::move(measured), request_ns);
}

std::string CostModel::ToJson(const Measured& measured, double request_ns) {
  Json rows = Json::array();
  for (const Row& row : measured.rows_ns) rows.push_back({row.tokens, row.ns});
  const Json object = {{"request_ns", request_ns},
                       {"step_ns", measured.step_ns},
                       {"rows_ns", std::move(rows)},
                       {"prefill_pair_ns", measured.prefill_pair_ns},
                       {"decode_pair_ns", measured.decode_pair_ns},
                       {"sequence_ns", measured.sequence_ns},
                       {"kv_byte_ns", measured.kv_byte_ns}};
  return object.dump(2);
}

std::int64_t CostModel::StepNs(const StepWork& work) const {
  const auto tokens = static_cast<double>(work.tokens);
  double ns = 0;
  if (is_device_) {
    const double flops = work_.flops_per_token * tokens +
                         work_.flops_per_pair * (work.prefill_pairs + work.decode_pairs);
    const double bytes = work_.WeightBytes(tokens) + work.kv_bytes;
    ns = device_.step_ns + 1e9 * std::max(flops / (device_.flops_per_s * device_.flops_share),
                                          bytes / (device_.bytes_per_s * device_.bytes_share));
  } else {
    ns = measured_.step_ns + RowsNs(measured_.rows_ns, tokens) +
         measured_.prefill_pair_ns * work.prefill_pairs +
         measured_.decode_pair_ns * work.decode_pairs +
         measured_.sequence_ns * static_cast<double>(work.sequences) +
         measured_.kv_byte_ns * work.kv_bytes;
  }
  return std::llround(std::clamp(ns, 0.0, kMaxNs));
}

}  // namespace ashlar::simulate
