#include "model/testing/tiny_model.h"

#include <fmt/format.h>

#include "model/testing/tiny_blocks.h"
#include "model/testing/tiny_family.h"
#include "model/testing/tiny_metadata.h"
#include "model/testing/tiny_tensors.h"

namespace ashlar::model {
namespace {

// Divisors of the rotations' frequencies: 1 for the first half of the pairs, then `divisor`.
std::vector<float> Divisors(std::uint32_t rope_dims, float divisor) {
  std::vector<float> divisors(rope_dims / 2, divisor);
  std::fill_n(divisors.begin(), divisors.size() / 2, 1.0f);
  return divisors;
}

void AddRopeDivisors(gguf::GgufWriter& writer, const TinyModelOptions& o) {
  const std::uint64_t pairs = o.rope_dims / 2;
  if (o.has_rope_divisors) {
    writer.AddFloats("rope_freqs.weight", {pairs}, Divisors(o.rope_dims, 8.0f));
  }
  if (o.has_rope_factors) {
    writer.AddFloats("rope_factors_long.weight", {pairs}, Divisors(o.rope_dims, 12.0f));
    writer.AddFloats("rope_factors_short.weight", {pairs}, Divisors(o.rope_dims, 1.5f));
  }
}

}  // namespace

gguf::GgufWriter MakeTinyModel(const TinyModelOptions& o) {
  const TinyFamily& family = TinyFamilyOf(o.architecture);
  gguf::GgufWriter writer;
  SetTinyMetadata(writer, family, o);
  SetTinyVocabulary(writer);
  TinyTensors tensors(writer, o.dtype, o.seed);
  tensors.Matrix("token_embd.weight", {.rows = kTinyVocab, .columns = o.hidden});
  if (family.has_positions) {
    tensors.FloatMatrix("position_embd.weight", {.rows = o.context, .columns = o.hidden});
  }
  AddTinyNorm(tensors, family, "output_norm", o.hidden);
  if (!o.is_tied) tensors.Matrix("output.weight", {.rows = kTinyVocab, .columns = o.hidden});
  AddRopeDivisors(writer, o);
  for (std::uint32_t i = 0; i < o.layers; ++i) {
    const TinyLayer layer = {
        .family = family, .options = o, .index = i, .block = fmt::format("blk.{}.", i)};
    AddTinyAttention(tensors, layer);
    AddTinyFeedForward(tensors, layer);
  }
  return writer;
}

Result<TinyModelOptions> FindTinyModel(std::string_view name) {
  std::string names;
  for (const NamedTinyModel& model : AllTinyModels()) {
    if (model.name == name) return model.options;
    names += names.empty() ? "" : ", ";
    names += model.name;
  }
  return MakeError(ErrorCode::kInvalidArgument, "no tiny model is called '{}'; there are {}", name,
                   names);
}

}  // namespace ashlar::model
