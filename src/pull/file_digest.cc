#include "pull/file_digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

namespace ashlar::pull {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

struct Free {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Result<std::string> Sha256Of(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, Free> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return MakeError(ErrorCode::kIo, "cannot read {}: {}", path.string(), std::strerror(errno));
  }
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  ASHLAR_CHECK(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1, "no SHA-256");
  std::vector<unsigned char> bytes(kReadBytes);
  while (true) {
    const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), file.get());
    ASHLAR_CHECK(EVP_DigestUpdate(context.get(), bytes.data(), count) == 1, "SHA-256 failed");
    if (count < bytes.size()) break;
  }
  if (std::ferror(file.get()) != 0) {
    return MakeError(ErrorCode::kIo, "cannot read {}: {}", path.string(), std::strerror(errno));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  ASHLAR_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1, "SHA-256 failed");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace ashlar::pull
