// Certificates made on the spot, so that none lies in the repository to expire.
#pragma once

#include <string>

namespace ashlar::net::testing {

struct CertificateFiles {
  std::string certificate_path;
  std::string key_path;
};

// A key and a certificate for "localhost" that it signs itself, as PEM files in `folder`, with
// names that begin with `name` and are this process's own.
CertificateFiles WriteSelfSigned(const std::string& folder, const std::string& name);

}  // namespace ashlar::net::testing
