// make_cache_corpus FOLDER: writes the seed inputs of cache_fuzz: a short random program for every
// layout, some with the other choices of the first byte.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/rng.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_cache_corpus FOLDER\n", stderr);
    return 2;
  }
  constexpr std::uint64_t kSeeds = 15;
  constexpr std::uint64_t kBytes = 600;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::string bytes(1, static_cast<char>(seed * 17));  // all layouts, most policies
    for (std::uint64_t i = 1; i < kBytes; ++i) {
      bytes += static_cast<char>(ashlar::RandomBits(seed, 1, i));
    }
    std::ofstream file(std::string(argv[1]) + "/random_" + std::to_string(seed), std::ios::binary);
    file << bytes;
    if (!file.flush()) {
      std::fprintf(stderr, "%s: cannot be written\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
