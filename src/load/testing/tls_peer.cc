#include "load/testing/tls_peer.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

#include "base/check.h"

namespace ashlar::load::testing {
namespace {

constexpr long kValidSeconds = 3600;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
template <typename T, auto kFree>
using Owned = std::unique_ptr<T, Free<kFree>>;
using Bio = Owned<BIO, BIO_free_all>;

std::string Contents(BIO* bio) {
  const char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Bio Reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace

Certificate MakeCertificate(const std::string& host) {
  const Owned<EVP_PKEY, EVP_PKEY_free> key(EVP_EC_gen("P-256"));
  const Owned<X509, X509_free> certificate(X509_new());
  X509_set_version(certificate.get(), 2);  // which is 3
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kValidSeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kValidSeconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(host.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  const std::string names = "DNS:" + host;
  const Owned<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()));
  X509_add_ext(certificate.get(), extension.get(), -1);
  ASHLAR_CHECK(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "cannot sign");
  const Bio key_pem(BIO_new(BIO_s_mem()));
  const Bio certificate_pem(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  PEM_write_bio_X509(certificate_pem.get(), certificate.get());
  return {.key_pem = Contents(key_pem.get()), .certificate_pem = Contents(certificate_pem.get())};
}

bool AnswerOverTls(int socket, const Certificate& certificate, std::string_view answer) {
  const Owned<SSL_CTX, SSL_CTX_free> context(SSL_CTX_new(TLS_server_method()));
  const Owned<EVP_PKEY, EVP_PKEY_free> key(
      PEM_read_bio_PrivateKey(Reader(certificate.key_pem).get(), nullptr, nullptr, nullptr));
  const Owned<X509, X509_free> x509(
      PEM_read_bio_X509(Reader(certificate.certificate_pem).get(), nullptr, nullptr, nullptr));
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  SSL_CTX_use_certificate(context.get(), x509.get());
  const Owned<SSL, SSL_free> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket);
  if (SSL_accept(ssl.get()) != 1) return false;
  std::string request;
  std::array<char, 1024> piece;
  while (request.find("\r\n\r\n") == std::string::npos) {
    const int got = SSL_read(ssl.get(), piece.data(), static_cast<int>(piece.size()));
    if (got <= 0) return false;
    request.append(piece.data(), static_cast<std::size_t>(got));
  }
  SSL_write(ssl.get(), answer.data(), static_cast<int>(answer.size()));
  SSL_shutdown(ssl.get());
  return true;
}

}  // namespace ashlar::load::testing
