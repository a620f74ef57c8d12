// make_tiny_model NAME FILE [CONTEXT] writes a tiny random model, trained to CONTEXT tokens where
// that is given; make_tiny_model --list prints the names.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "model/testing/tiny_model.h"

int main(int argc, char** argv) {
  namespace model = ashlar::model;
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    for (const auto& model : model::AllTinyModels()) {
      std::printf("%.*s\n", static_cast<int>(model.name.size()), model.name.data());
    }
    return 0;
  }
  std::uint32_t context = 0;
  const std::string_view wanted = argc == 4 ? argv[3] : "";
  std::from_chars(wanted.data(), wanted.data() + wanted.size(), context);
  if (argc != 3 && context == 0) {
    std::fprintf(stderr, "usage: make_tiny_model NAME FILE [CONTEXT] | make_tiny_model --list\n");
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
