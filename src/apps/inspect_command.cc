// `ashlar inspect`: what is in a model file, and what its cache will cost.

#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "apps/commands.h"
#include "apps/flags.h"
#include "base/byte_size.h"
#include "gguf/model_file.h"
#include "hf/model_folder.h"
#include "model/config.h"
#include "model/kv_layout.h"

namespace ashlar::apps {
namespace {

using Json = nlohmann::ordered_json;

struct InspectFlags {
  std::string model;
  bool as_json = false;
  bool lists_tensors = false;
  bool lists_metadata = false;
};

// Longer strings and arrays are cut for people; JSON gets them whole.
constexpr std::size_t kShownBytes = 70;
constexpr std::size_t kShownElements = 6;

Json ToJson(const gguf::Value& value) {
  return std::visit(
      [](const auto& one) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, gguf::Array>) {
          return std::visit([](const auto& elements) { return Json(elements); }, one.elements);
        } else {
          return Json(one);
        }
      },
      value);
}

std::string ForPeople(const gguf::Value& value) {
  std::string text;
  if (const auto* const array = std::get_if<gguf::Array>(&value)) {
    const Json all = ToJson(value);
    const Json first(std::vector<Json>(
        all.begin(),
        all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kShownElements))));
    text = first.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (array->size() > kShownElements) text += fmt::format(" ... {} in all", array->size());
    return text;
  }
  text = ToJson(value).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kShownBytes)
    text = text.substr(0, kShownBytes) + fmt::format(" ... {} bytes", text.size());
  return text;
}

struct TypeCount {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

std::map<std::string_view, TypeCount> CountTypes(const gguf::ModelFile& file) {
  std::map<std::string_view, TypeCount> types;
  for (const gguf::Tensor& tensor : file.tensors()) {
    TypeCount& count = types[NameOf(tensor.dtype)];
    ++count.tensors;
    count.elements += tensor.elements();
    count.bytes += tensor.bytes();
  }
  return types;
}

// KV bytes of one token in each plain codec, and in the presets.
std::map<std::string, std::uint64_t> KvBytesPerToken(const model::ModelConfig& config) {
  std::map<std::string, std::uint64_t> bytes;
  const auto add = [&](std::string_view spec) {
    const auto codecs = model::ParseKvCodecSpec(spec);
    const auto layout = model::KvLayoutOf(config, codecs.value(), /*block_tokens=*/16);
    if (layout.ok()) bytes[std::string(spec)] = layout->bytes_per_token();
  };
  for (const char* const raw : {"f32", "f16", "bf16"}) add(raw);
  for (const model::KvCodecPreset& preset : model::KvCodecPresets()) add(preset.name);
  return bytes;
}

// Layers that attend to a window, and its tokens; {0, 0} when there are none.
struct Windows {
  std::size_t layers = 0;
  std::uint32_t tokens = 0;
};
Windows WindowsOf(const model::ModelConfig& config) {
  Windows windows;
  for (const model::LayerConfig& layer : config.layer) {
    if (layer.window > 0) windows = {windows.layers + 1, layer.window};
  }
  return windows;
}

Json Geometry(const model::ModelConfig& config) {
  Json json = {{"architecture", config.architecture},
               {"name", config.name},
               {"layers", config.layers},
               {"hidden", config.hidden},
               {"feed_forward", config.feed_forward},
               {"heads", config.heads},
               {"kv_heads", config.kv_heads},
               {"head_dim", config.head_dim},
               {"vocab", config.vocab},
               {"context", config.context},
               {"rope_base", config.ropes[0].base},
               {"rope_dims", config.rope_dims}};
  if (const Windows windows = WindowsOf(config); windows.layers > 0) {
    json["window"] = windows.tokens;
    json["window_layers"] = windows.layers;
  }
  if (config.experts) {
    json["experts"] = config.experts->count;
    json["experts_used"] = config.experts->used;
  }
  if (config.latent) json["latent_rank"] = config.latent->rank;
  return json;
}

Json Describe(const gguf::ModelFile& file, const Result<model::ModelConfig>& config) {
  Json json = {
      {"paths", file.paths()}, {"format", file.format()}, {"file_bytes", file.file_bytes()}};
  if (file.version() > 0) json["gguf_version"] = file.version();
  if (config.ok()) {
    json["geometry"] = Geometry(*config);
    json["kv_bytes_per_token"] = KvBytesPerToken(*config);
  } else {
    json["not_runnable"] = config.error().message;
  }
  Json types = Json::object();
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const auto& [name, count] : CountTypes(file)) {
    types[std::string(name)] = {
        {"tensors", count.tensors}, {"elements", count.elements}, {"bytes", count.bytes}};
    elements += count.elements;
    bytes += count.bytes;
  }
  json["parameters"] = elements;
  json["weights_bytes"] = bytes;
  json["tensor_types"] = types;
  return json;
}

void PrintGeometry(const model::ModelConfig& c) {
  fmt::print("  architecture   {}{}\n", c.architecture, c.name.empty() ? "" : " (" + c.name + ")");
  fmt::print("  layers         {}\n", c.layers);
  fmt::print("  hidden         {}, feed forward {}\n", c.hidden, c.feed_forward);
  if (c.latent) {
    fmt::print("  attention      {} query heads over one latent of {} and {} rotated channels\n",
               c.heads, c.latent->rank, c.rope_dims);
  } else {
    fmt::print("  attention      {} query heads, {} kv heads of {} ({} query heads share one)\n",
               c.heads, c.kv_heads, c.head_dim, c.group());
  }
  if (const Windows windows = WindowsOf(c); windows.layers > 0) {
    fmt::print("  windows        {} of {} layers see the last {} tokens\n", windows.layers,
               c.layers, windows.tokens);
  }
  if (c.experts) {
    fmt::print("  experts        {}, of which a token uses {}\n", c.experts->count,
               c.experts->used);
  }
  fmt::print("  vocabulary     {}\n", c.vocab);
  fmt::print("  context        {} tokens, rope base {:g} on {} channels\n", c.context,
             c.ropes[0].base, c.rope_dims);
  const std::string_view both = c.latent ? "" : " x 2 (K and V)";
  fmt::print(
      "\nKV cache: {} layers x {} kv heads x {} channels{} = {} elements per token\n", c.layers,
      c.kv_heads, c.head_dim, both,
      FormatWithCommas(std::uint64_t{c.latent ? 1u : 2u} * c.layers * c.kv_heads * c.head_dim));
  for (const auto& [codec, bytes] : KvBytesPerToken(c)) {
    fmt::print("  {:<5} {:>9} bytes per token, {:>10} for the whole context of {} tokens\n", codec,
               FormatWithCommas(bytes), FormatByteSize(bytes * c.context), c.context);
  }
}

void PrintForPeople(const gguf::ModelFile& file, const Result<model::ModelConfig>& config,
                    const InspectFlags& flags) {
  for (const std::string& path : file.paths()) fmt::print("{}\n", path);
  fmt::print("  {}, {} ({} bytes), {} tensors, {} metadata keys\n", file.format(),
             FormatByteSize(file.file_bytes()), file.file_bytes(), file.tensors().size(),
             file.metadata().size());
  if (config.ok()) {
    PrintGeometry(*config);
  } else {
    fmt::print("  cannot be run: {}\n", config.error().message);
  }
  fmt::print("\n{:<6} {:>8} {:>16} {:>12} {:>6}\n", "type", "tensors", "elements", "bytes", "bits");
  for (const auto& [name, count] : CountTypes(file)) {
    fmt::print("{:<6} {:>8} {:>16} {:>12} {:>6.3g}\n", name, count.tensors,
               FormatWithCommas(count.elements), FormatByteSize(count.bytes),
               8.0 * static_cast<double>(count.bytes) / static_cast<double>(count.elements));
  }
  if (flags.lists_metadata) {
    fmt::print("\n");
    for (const auto& [key, value] : file.metadata()) fmt::print("{} = {}\n", key, ForPeople(value));
  }
  if (flags.lists_tensors) {
    fmt::print("\n");
    for (const gguf::Tensor& tensor : file.tensors()) {
      fmt::print("{:<6} [{}] {} bytes  {}\n", NameOf(tensor.dtype), fmt::join(tensor.dims, ", "),
                 tensor.bytes(), tensor.name);
    }
  }
}

Status Inspect(const InspectFlags& flags) {
  const std::string path = flags.model.empty() ? DefaultModelPath() : flags.model;
  ASHLAR_ASSIGN(const gguf::ModelFile file, hf::OpenModel(path, hf::FolderParts::kAll));
  const Result<model::ModelConfig> config = model::ModelConfig::Read(file);
  if (!flags.as_json) {
    PrintForPeople(file, config, flags);
    return {};
  }
  Json json = Describe(file, config);
  if (flags.lists_metadata) {
    for (const auto& [key, value] : file.metadata())
      json["metadata"][std::string(key)] = ToJson(value);
  }
  if (flags.lists_tensors) {
    json["tensors"] = Json::array();
    for (const gguf::Tensor& tensor : file.tensors()) {
      json["tensors"].push_back({{"name", tensor.name},
                                 {"type", NameOf(tensor.dtype)},
                                 {"dims", tensor.dims},
                                 {"bytes", tensor.bytes()}});
    }
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return {};
}

}  // namespace

CommandBody AddInspectCommand(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* const command = app.add_subcommand("inspect", "show what is in a model file");
  command
      ->add_option("model,-m,--model", flags->model,
                   "GGUF file, or folder of safetensors (default: the default model)")
      ->envname("ASHLAR_MODEL");
  command->add_flag("--json", flags->as_json, "print one JSON object");
  command->add_flag("--tensors", flags->lists_tensors, "list every tensor");
  command->add_flag("--metadata", flags->lists_metadata, "list every metadata key");
  return [flags] { return Inspect(*flags); };
}

}  // namespace ashlar::apps
