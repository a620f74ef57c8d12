#include "hf/rope.h"

#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::hf {
namespace {

constexpr std::uint64_t kMaxRotated = 4096;

// One object of parameters: "rope_scaling", or since transformers 5 "rope_parameters", which may
// have one for each kind of layer.
class RopeReader {
 public:
  RopeReader(const Config& config, const RopeShape& shape, Builder& builder)
      : config_(config), shape_(shape), builder_(builder) {}

  Status Read();

 private:
  Result<std::optional<double>> Number(std::string_view name) const;
  Result<double> Needed(std::string_view name) const;
  Status Base();
  Status Scaling(std::string_view type);
  Status Llama3(double factor);
  Status Yarn(double factor);
  Status LongRope();
  Status Divisors(std::string_view field, std::string_view tensor);

  const Config& config_;
  const RopeShape& shape_;
  Builder& builder_;
  std::optional<Object> parameters_;
};

std::optional<Object> ObjectOf(const Object& object, std::string_view name) {
  const auto value = FieldOf(object, name);
  return value ? ObjectIn(*value) : std::nullopt;
}

Result<std::optional<double>> RopeReader::Number(std::string_view name) const {
  const auto value = parameters_ ? FieldOf(*parameters_, name) : std::nullopt;
  if (!value) return std::optional<double>();
  const auto number = NumberIn(*value);
  if (!number || !std::isfinite(*number)) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}': {} of the rotary scaling is {}; a number is needed", config_.where(),
                     name, Shown(*value));
  }
  return number;
}

Result<double> RopeReader::Needed(std::string_view name) const {
  ASHLAR_ASSIGN(const auto number, Number(name));
  if (number && *number > 0) return *number;
  return MakeError(ErrorCode::kCorrupt,
                   "'{}': {} of the rotary scaling is {}; a positive number is needed",
                   config_.where(), name, number ? fmt::format("{}", *number) : "missing");
}

Status RopeReader::Read() {
  for (const std::string_view name : {"rope_parameters", "rope_scaling"}) {
    const auto value = config_.Find(name);
    if (!value || parameters_) continue;
    parameters_ = ObjectIn(*value);
    if (!parameters_) return config_.Wrong(name, "an object is needed", ErrorCode::kCorrupt);
  }
  // Windowed layers have angles of their own, unscaled.
  ASHLAR_ASSIGN(auto window_base, config_.Number({"rope_local_base_freq"}));
  if (parameters_) {
    if (const auto sliding = ObjectOf(*parameters_, "sliding_attention")) {
      const auto base = FieldOf(*sliding, "rope_theta");
      window_base = base ? NumberIn(*base) : std::nullopt;
      const auto type = FieldOf(*sliding, "rope_type");
      if (type && TextIn(*type) != "default") {
        return config_.Wrong("rope_parameters", "scaled angles of windowed layers do not run here");
      }
    }
    if (const auto full = ObjectOf(*parameters_, "full_attention")) parameters_ = full;
  }
  if (window_base) builder_.SetOwn("rope.freq_base_swa", *window_base);
  ASHLAR_TRY(Base());
  std::string_view type = "default";
  if (parameters_) {
    for (const std::string_view name : {"type", "rope_type"}) {
      const auto value = FieldOf(*parameters_, name);
      if (value) type = TextIn(*value).value_or("of no name");
    }
    if (FieldOf(*parameters_, "mrope_section")) type = "mrope";
  }
  return type == "default" ? Status{} : Scaling(type);
}

Status RopeReader::Base() {
  ASHLAR_ASSIGN(auto base, Number("rope_theta"));
  if (!base) {
    ASHLAR_ASSIGN(base, config_.Number({"rope_theta"}));
  }
  if (base) builder_.SetOwn("rope.freq_base", *base);
  return {};
}

Status RopeReader::Scaling(std::string_view type) {
  if (shape_.rotated == 0 || shape_.rotated > kMaxRotated) {
    return MakeError(ErrorCode::kCorrupt, "'{}': {} channels of a head rotate", config_.where(),
                     shape_.rotated);
  }
  if (type == "longrope" || type == "su") return LongRope();
  if (type != "linear" && type != "llama3" && type != "yarn") {
    return MakeError(ErrorCode::kUnsupported,
                     "'{}': the rotary scaling is of type '{}'; this build knows default, linear, "
                     "llama3, yarn and longrope",
                     config_.where(), type);
  }
  ASHLAR_ASSIGN(const double factor, Needed("factor"));
  if (type == "llama3") return Llama3(factor);
  builder_.SetText(builder_.architecture() + ".rope.scaling.type", type);
  builder_.SetOwn("rope.scaling.factor", factor);
  return type == "yarn" ? Yarn(factor) : Status{};
}

// Divides the frequency of each pair by 1 (fast ones) to `factor` (slow ones).
Status RopeReader::Llama3(double factor) {
  ASHLAR_ASSIGN(const double low, Needed("low_freq_factor"));
  ASHLAR_ASSIGN(const double high, Needed("high_freq_factor"));
  ASHLAR_ASSIGN(const double original, Needed("original_max_position_embeddings"));
  if (high <= low) {
    return MakeError(ErrorCode::kCorrupt,
                     "'{}': low_freq_factor {} and high_freq_factor {}; the second is larger in "
                     "every model",
                     config_.where(), low, high);
  }
  ASHLAR_ASSIGN(auto base, Number("rope_theta"));
  if (!base) {
    ASHLAR_ASSIGN(base, config_.Number({"rope_theta"}));
  }
  std::vector<float> divisors;
  for (std::uint64_t i = 0; i < shape_.rotated; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(shape_.rotated);
    const double length = 2 * std::numbers::pi * std::pow(base.value_or(10000.0), exponent);
    double divisor = 1.0;
    if (length > original / low) {
      divisor = factor;
    } else if (length >= original / high) {
      const double smooth = (original / length - low) / (high - low);
      divisor = 1.0 / ((1.0 - smooth) / factor + smooth);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  builder_.AddFloats("rope_freqs.weight", std::move(divisors));
  return {};
}

// How much cosine and sine grow: 1 + 0.1 m ln(factor).
double MagnitudeOf(double factor, double m) {
  return factor <= 1 ? 1.0 : 1.0 + 0.1 * m * std::log(factor);
}

Status RopeReader::Yarn(double factor) {
  ASHLAR_ASSIGN(const auto original, Number("original_max_position_embeddings"));
  builder_.SetOwn("rope.scaling.original_context_length",
                  original.value_or(static_cast<double>(shape_.context)));
  constexpr std::pair<std::string_view, std::string_view> kBetas[] = {
      {"beta_fast", "rope.scaling.yarn_beta_fast"}, {"beta_slow", "rope.scaling.yarn_beta_slow"}};
  for (const auto& [theirs, ours] : kBetas) {
    ASHLAR_ASSIGN(const auto beta, Number(theirs));
    if (beta) builder_.SetOwn(ours, *beta);
  }
  const auto truncate = FieldOf(*parameters_, "truncate");
  if (truncate && FlagIn(*truncate) != true) {
    return MakeError(ErrorCode::kUnsupported,
                     "'{}': truncate of the rotary scaling is {}; this build runs true",
                     config_.where(), Shown(*truncate));
  }
  ASHLAR_ASSIGN(auto magnitude, Number("attention_factor"));
  ASHLAR_ASSIGN(const auto m, Number("mscale"));
  ASHLAR_ASSIGN(const auto m_all, Number("mscale_all_dim"));
  const bool has_latent = config_.Find("kv_lora_rank").has_value();
  if (has_latent && m_all) {
    builder_.SetOwn("rope.scaling.yarn_log_multiplier", 0.1 * *m_all);
  }
  if (!magnitude) {
    magnitude = m && m_all && *m_all != 0 ? MagnitudeOf(factor, *m) / MagnitudeOf(factor, *m_all)
                                          : MagnitudeOf(factor, 1.0);
  }
  // The engine multiplies by the usual magnitude, where the key above is not.
  const double usual = has_latent && m_all ? 1.0 : MagnitudeOf(factor, 1.0);
  builder_.SetOwn("rope.scaling.attn_factor", *magnitude / usual);
  return {};
}

Status RopeReader::LongRope() {
  builder_.SetText(builder_.architecture() + ".rope.scaling.type", "longrope");
  ASHLAR_TRY(Divisors("long_factor", "rope_factors_long.weight"));
  ASHLAR_TRY(Divisors("short_factor", "rope_factors_short.weight"));
  ASHLAR_ASSIGN(auto original, Number("original_max_position_embeddings"));
  if (!original) {
    ASHLAR_ASSIGN(original, config_.Number({"original_max_position_embeddings"}));
  }
  if (!original || *original <= 1) return config_.Missing("original_max_position_embeddings");
  builder_.SetOwn("rope.scaling.original_context_length", *original);
  ASHLAR_ASSIGN(auto magnitude, Number("attention_factor"));
  if (!magnitude) {
    const double factor = static_cast<double>(shape_.context) / *original;
    magnitude = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(*original));
  }
  builder_.SetOwn("rope.scaling.attn_factor", *magnitude);
  return {};
}

Status RopeReader::Divisors(std::string_view field, std::string_view tensor) {
  const auto value = FieldOf(*parameters_, field);
  const auto array = value ? ArrayIn(*value) : std::nullopt;
  if (!array || array->size() != shape_.rotated / 2) {
    return MakeError(
        ErrorCode::kCorrupt, "'{}': {} of the rotary scaling has {}; {} numbers are needed",
        config_.where(), field, array ? fmt::format("{}", array->size()) : std::string("none"),
        shape_.rotated / 2);
  }
  std::vector<float> divisors;
  for (const Element element : *array) {
    const auto number = NumberIn(element);
    if (!number) {
      return MakeError(ErrorCode::kCorrupt,
                       "'{}': {} of the rotary scaling holds {}; numbers are needed",
                       config_.where(), field, Shown(element));
    }
    divisors.push_back(static_cast<float>(*number));
  }
  builder_.AddFloats(std::string(tensor), std::move(divisors));
  return {};
}

}  // namespace

Result<std::optional<double>> RotatedPart(const Config& config) {
  ASHLAR_ASSIGN(auto part, config.Number({"partial_rotary_factor"}));
  if (const auto value = config.Find("rope_parameters"); value && !part) {
    const auto parameters = ObjectIn(*value);
    const auto inner = parameters ? FieldOf(*parameters, "partial_rotary_factor") : std::nullopt;
    if (inner) part = NumberIn(*inner);
  }
  if (part && !(*part > 0 && *part <= 1)) {
    return MakeError(ErrorCode::kCorrupt, "'{}': partial_rotary_factor is {}; above 0, at most 1",
                     config.where(), *part);
  }
  return part;
}

Status ReadRope(const Config& config, const RopeShape& shape, Builder& builder) {
  return RopeReader(config, shape, builder).Read();
}

}  // namespace ashlar::hf
