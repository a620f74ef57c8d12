// The server's end of TLS on a socket, with a certificate of its own making.
#pragma once

#include <string>
#include <string_view>

namespace ashlar::load::testing {

// A key and a certificate for `host` that it signs itself, made anew.
struct Certificate {
  std::string key_pem;
  std::string certificate_pem;
};
Certificate MakeCertificate(const std::string& host);

// Accepts TLS on `socket`, reads until an empty line, writes `answer`, and closes TLS. False when
// the handshake fails.
bool AnswerOverTls(int socket, const Certificate& certificate, std::string_view answer);

}  // namespace ashlar::load::testing
