// make_tiny_model NAME FILE [CONTEXT] writes a tiny random model, trained to CONTEXT tokens where
// that is given. --list prints the names of those that the engine runs, --list-families those that
// it does not run yet.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "model/testing/tiny_model.h"

namespace {

int PrintNames(const std::vector<ashlar::model::NamedTinyModel>& models) {
  for (const auto& model : models) {
    std::printf("%.*s\n", static_cast<int>(model.name.size()), model.name.data());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  namespace model = ashlar::model;
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--list") return PrintNames(model::AllTinyModels());
  if (word == "--list-families") return PrintNames(model::FamilyTinyModels());
  std::uint32_t context = 0;
  const std::string_view wanted = argc == 4 ? argv[3] : "";
  std::from_chars(wanted.data(), wanted.data() + wanted.size(), context);
  if (argc != 3 && context == 0) {
    std::fprintf(stderr, "usage: make_tiny_model NAME FILE [CONTEXT] | --list | --list-families\n");
    return 2;
  }
  auto options = model::FindTinyModel(argv[1]);
  if (options.ok() && context > 0) options->context = context;
  const ashlar::Status written = options.ok() ? model::MakeTinyModel(*options).WriteTo(argv[2])
                                              : ashlar::Status(options.error());
  if (!written.ok()) {
    std::fprintf(stderr, "make_tiny_model: %s\n", written.error().message.c_str());
    return 1;
  }
  return 0;
}
