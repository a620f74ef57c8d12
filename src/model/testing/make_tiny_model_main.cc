// make_tiny_model NAME FILE writes a tiny random model; make_tiny_model --list prints the names.
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
  if (argc != 3) {
    std::fprintf(stderr, "usage: make_tiny_model NAME FILE | make_tiny_model --list\n");
    return 2;
  }
  const auto options = model::FindTinyModel(argv[1]);
  const ashlar::Status written = options.ok() ? model::MakeTinyModel(*options).WriteTo(argv[2])
                                              : ashlar::Status(options.error());
  if (!written.ok()) {
    std::fprintf(stderr, "make_tiny_model: %s\n", written.error().message.c_str());
    return 1;
  }
  return 0;
}
