// TLS as a filter: bytes of the wire go in, bytes of the application come out, and back. No
// sockets, so that a connection keeps its one way of waiting and tests need no network.
//
// TLS 1.2 and 1.3, HTTP/1.1 by ALPN, no renegotiation, no compression, no client certificates.
// Sessions are resumed by tickets, so the server keeps nothing of clients that have left.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ashlar::net {

// A certificate chain and its key, ready to serve. Immutable; any number of threads.
class TlsContext {
 public:
  // Reads PEM files: the server's certificate followed by those that lead to its root, and its
  // private key without a passphrase. Errors: kInvalidArgument, naming the file and what is wrong.
  static Result<std::shared_ptr<const TlsContext>> Load(const std::string& certificate_path,
                                                        const std::string& key_path);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// The server's end of one TLS connection. One thread at a time.
class TlsSession {
 public:
  explicit TlsSession(const std::shared_ptr<const TlsContext>& context);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  enum class Progress {
    kOpen,
    kPeerClosed,  // the peer said that it sends no more
    kFailed,      // not TLS, or broken; what TakeOutput has tells the peer, then close
  };

  // Takes all of `wire`; appends what it decrypts to `plain`, which is at most as long.
  Progress Receive(std::string_view wire, std::string& plain);

  // The handshake is done: Send may be called.
  bool is_established() const;

  // Encrypts. False when the connection is beyond use. Precondition: is_established().
  bool Send(std::string_view plain);

  // Says that nothing more will be sent, which is how the peer knows that nothing was cut off.
  // False when that has been said, or cannot be.
  bool SayClosing();

  // Bytes for the wire. What Receive makes (handshake, alerts) waits here, too.
  std::string TakeOutput();
  std::size_t output_bytes() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// Whether `wire`, the first bytes of a connection, may be TLS: a client that speaks plain HTTP to
// the port can be told so in its own language. Precondition: not empty.
bool LooksLikeTls(std::string_view wire);

}  // namespace ashlar::net
