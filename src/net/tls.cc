#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <utility>

#include "base/check.h"

namespace ashlar::net {
namespace {

constexpr std::string_view kProtocol = "\x08http/1.1";  // as ALPN writes it: length, name
constexpr char kHandshakeRecord = 0x16;
constexpr std::size_t kReadBytes = 16 * 1024;  // the plain bytes of one record

// OpenSSL keeps errors in a queue of the thread's; what was in it before is not ours.
std::string TakeReason() {
  std::string reason = "unknown reason";
  if (const unsigned long code = ERR_peek_last_error(); code != 0) {
    const char* const text = ERR_reason_error_string(code);
    reason = text != nullptr ? text : "unknown reason";
  }
  ERR_clear_error();
  return reason;
}

int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_length,
                   const unsigned char* offered, unsigned int offered_bytes, void*) {
  unsigned char* chosen = nullptr;
  const auto* const ours = reinterpret_cast<const unsigned char*>(kProtocol.data());
  if (SSL_select_next_proto(&chosen, out_length, ours, kProtocol.size(), offered, offered_bytes) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;  // RFC 7301 3.2
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// Without it OpenSSL would ask on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

// The two ends of a session's wire. OpenSSL's own memory BIO would keep its largest size for ever.
struct Wire {
  std::string_view in;  // not read yet; all of it is read before Receive returns
  std::string out;
};

int ReadWire(BIO* bio, char* to, std::size_t bytes, std::size_t* got) {
  BIO_clear_retry_flags(bio);
  auto& wire = *static_cast<Wire*>(BIO_get_data(bio));
  if (wire.in.empty()) {
    BIO_set_retry_read(bio);
    return 0;
  }
  *got = wire.in.copy(to, bytes);
  wire.in.remove_prefix(*got);
  return 1;
}

int WriteWire(BIO* bio, const char* from, std::size_t bytes, std::size_t* put) {
  BIO_clear_retry_flags(bio);
  static_cast<Wire*>(BIO_get_data(bio))->out.append(from, bytes);
  *put = bytes;
  return 1;
}

long ControlWire(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* WireMethod() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire");
    ASHLAR_CHECK(made != nullptr, "out of memory");
    BIO_meth_set_read_ex(made, &ReadWire);
    BIO_meth_set_write_ex(made, &WriteWire);
    BIO_meth_set_ctrl(made, &ControlWire);
    return made;
  }();
  return kMethod;
}

struct SslCtxDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

}  // namespace

struct TlsContext::Impl {
  std::unique_ptr<SSL_CTX, SslCtxDeleter> context;
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<const TlsContext>> TlsContext::Load(const std::string& certificate_path,
                                                           const std::string& key_path) {
  ERR_clear_error();
  auto impl = std::make_unique<Impl>();
  impl->context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = impl->context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    return MakeError(ErrorCode::kUnsupported, "OpenSSL cannot serve TLS here: {}", TakeReason());
  }
  SSL_CTX_set_options(
      context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // An idle connection keeps no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, &ChooseProtocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, &NoPassphrase);
  if (SSL_CTX_use_certificate_chain_file(context, certificate_path.c_str()) != 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cannot use the certificate '{}': {}; it must be a readable PEM file, the "
                     "server's certificate first",
                     certificate_path, TakeReason());
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_path.c_str(), SSL_FILETYPE_PEM) != 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cannot use the key '{}': {}; it must be a readable PEM file without a "
                     "passphrase, of the certificate '{}'",
                     key_path, TakeReason(), certificate_path);
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return MakeError(ErrorCode::kInvalidArgument, "the key '{}' is not that of '{}': {}", key_path,
                     certificate_path, TakeReason());
  }
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(impl)));
}

struct TlsSession::Impl {
  std::shared_ptr<const TlsContext> context;
  Wire wire;
  std::unique_ptr<SSL, SslDeleter> ssl;
  bool is_failed = false;
  bool has_said_closing = false;
};

TlsSession::TlsSession(const std::shared_ptr<const TlsContext>& context)
    : impl_(std::make_unique<Impl>()) {
  impl_->context = context;
  impl_->ssl.reset(SSL_new(context->impl_->context.get()));
  BIO* const bio = BIO_new(WireMethod());
  ASHLAR_CHECK(impl_->ssl && bio != nullptr, "out of memory");
  BIO_set_data(bio, &impl_->wire);
  BIO_set_init(bio, 1);
  SSL_set_bio(impl_->ssl.get(), bio, bio);  // which owns it
  SSL_set_accept_state(impl_->ssl.get());
}

TlsSession::~TlsSession() = default;

TlsSession::Progress TlsSession::Receive(std::string_view wire, std::string& plain) {
  if (impl_->is_failed) {
    return Progress::kFailed;
  }
  ERR_clear_error();
  impl_->wire.in = wire;
  std::array<char, kReadBytes> buffer;
  int got = 0;
  while ((got = SSL_read(impl_->ssl.get(), buffer.data(), static_cast<int>(buffer.size()))) > 0) {
    plain.append(buffer.data(), static_cast<std::size_t>(got));
  }
  impl_->wire.in = {};
  const int reason = SSL_get_error(impl_->ssl.get(), got);
  ERR_clear_error();
  if (reason == SSL_ERROR_WANT_READ) {
    return Progress::kOpen;
  }
  impl_->is_failed = reason != SSL_ERROR_ZERO_RETURN;
  return impl_->is_failed ? Progress::kFailed : Progress::kPeerClosed;
}

bool TlsSession::is_established() const {
  return !impl_->is_failed && SSL_is_init_finished(impl_->ssl.get()) == 1;
}

bool TlsSession::Send(std::string_view plain) {
  ASHLAR_DCHECK(is_established(), "the handshake comes first");
  if (impl_->is_failed || plain.empty()) {
    return !impl_->is_failed;
  }
  ERR_clear_error();
  // Memory takes everything at once.
  const int sent = SSL_write(impl_->ssl.get(), plain.data(), static_cast<int>(plain.size()));
  if (sent != static_cast<int>(plain.size())) {
    impl_->is_failed = true;
    ERR_clear_error();
  }
  return !impl_->is_failed;
}

bool TlsSession::SayClosing() {
  if (!is_established() || std::exchange(impl_->has_said_closing, true)) {
    return false;
  }
  ERR_clear_error();
  const bool is_said = SSL_shutdown(impl_->ssl.get()) >= 0;
  ERR_clear_error();
  return is_said;
}

std::string TlsSession::TakeOutput() { return std::exchange(impl_->wire.out, {}); }

std::size_t TlsSession::output_bytes() const { return impl_->wire.out.size(); }

bool LooksLikeTls(std::string_view wire) { return wire.front() == kHandshakeRecord; }

}  // namespace ashlar::net
