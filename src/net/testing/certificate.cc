#include "net/testing/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/check.h"

namespace ashlar::net::testing {
namespace {

constexpr long kDaySeconds = 86'400;

template <typename Write>
void WriteFile(const std::string& path, Write write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ASHLAR_CHECK(file != nullptr, "cannot write {}", path);
  ASHLAR_CHECK(write(file) == 1 && std::fclose(file) == 0, "cannot write {}", path);
}

void AddExtension(X509* certificate, int kind, const char* value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  ASHLAR_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, "{}", value);
  X509_EXTENSION_free(extension);
}

}  // namespace

CertificateFiles WriteSelfSigned(const std::string& folder, const std::string& name) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), &X509_free);
  ASHLAR_CHECK(key && certificate, "out of memory");
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kDaySeconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  AddExtension(certificate.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  ASHLAR_CHECK(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "cannot sign");
  const std::string path = folder + "/" + name + "_" + std::to_string(getpid());
  CertificateFiles files{.certificate_path = path + ".crt", .key_path = path + ".key"};
  WriteFile(files.certificate_path,
            [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
  WriteFile(files.key_path, [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return files;
}

}  // namespace ashlar::net::testing
