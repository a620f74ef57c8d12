#include "net/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "net/testing/certificate.h"

namespace ashlar::net {
namespace {

using Progress = TlsSession::Progress;

// A client in memory, of OpenSSL's own making.
class Client {
 public:
  Client() : context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_);
  }
  ~Client() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  SSL* ssl() { return ssl_; }

  void Take(std::string_view wire) {
    BIO_write(SSL_get_rbio(ssl_), wire.data(), static_cast<int>(wire.size()));
  }
  std::string Wire() {
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(SSL_get_wbio(ssl_), &data);
    std::string wire(data, static_cast<std::size_t>(bytes));
    (void)BIO_reset(SSL_get_wbio(ssl_));
    return wire;
  }
  std::string Encrypt(std::string_view plain) {
    SSL_write(ssl_, plain.data(), static_cast<int>(plain.size()));
    return Wire();
  }
  std::string Read() {
    std::string plain;
    char buffer[4096];
    for (int got = 0; (got = SSL_read(ssl_, buffer, sizeof(buffer))) > 0;) {
      plain.append(buffer, static_cast<std::size_t>(got));
    }
    return plain;
  }

 private:
  SSL_CTX* const context_;
  SSL* const ssl_;
};

class TlsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const TlsContext> Context() {
    static const std::shared_ptr<const TlsContext> kContext = [] {
      const auto files = testing::WriteSelfSigned(::testing::TempDir(), "tls_test");
      auto loaded = TlsContext::Load(files.certificate_path, files.key_path);
      return *std::move(loaded);
    }();
    return kContext;
  }

  // Both sides talk, in pieces of `piece` bytes, until neither has anything to say.
  void ShakeHands(std::size_t piece = 1 << 20) {
    std::string plain;
    for (bool is_busy = true; is_busy;) {
      SSL_do_handshake(client_.ssl());
      const std::string said = client_.Wire();
      for (std::size_t at = 0; at < said.size(); at += piece) {
        ASSERT_EQ(session_.Receive(std::string_view(said).substr(at, piece), plain),
                  Progress::kOpen);
      }
      const std::string answered = session_.TakeOutput();
      client_.Take(answered);
      is_busy = !said.empty() || !answered.empty();
    }
    EXPECT_EQ(plain, "");
    EXPECT_TRUE(session_.is_established());
  }

  Client client_;
  TlsSession session_{Context()};
};

TEST_F(TlsTest, CarriesBytesBothWays) {
  ShakeHands();
  std::string plain;
  EXPECT_EQ(session_.Receive(client_.Encrypt("from the client"), plain), Progress::kOpen);
  EXPECT_EQ(plain, "from the client");
  const std::string large(100'000, 'x');
  EXPECT_TRUE(session_.Send(large));
  EXPECT_GT(session_.output_bytes(), large.size());
  client_.Take(session_.TakeOutput());
  EXPECT_EQ(session_.output_bytes(), 0u);
  EXPECT_EQ(client_.Read(), large);
}

TEST_F(TlsTest, BytesMayComeOneByOne) {
  ShakeHands(1);
  std::string plain;
  for (const char byte : client_.Encrypt("slow")) {
    EXPECT_EQ(session_.Receive({&byte, 1}, plain), Progress::kOpen);
  }
  EXPECT_EQ(plain, "slow");
}

TEST_F(TlsTest, NothingBelowTlsTwelveIsSpoken) {
  SSL_set_max_proto_version(client_.ssl(), TLS1_1_VERSION);
  SSL_set_security_level(client_.ssl(), 0);
  SSL_do_handshake(client_.ssl());
  std::string plain;
  EXPECT_EQ(session_.Receive(client_.Wire(), plain), Progress::kFailed);
  EXPECT_GT(session_.output_bytes(), 0u);  // an alert
  EXPECT_FALSE(session_.is_established());
}

TEST_F(TlsTest, TlsTwelveIsSpoken) {
  SSL_set_max_proto_version(client_.ssl(), TLS1_2_VERSION);
  ShakeHands();
  EXPECT_STREQ(SSL_get_version(client_.ssl()), "TLSv1.2");
}

TEST_F(TlsTest, ChoosesHttpByItsName) {
  static constexpr std::string_view kBoth = "\x02h2\x08http/1.1";
  SSL_set_alpn_protos(client_.ssl(), reinterpret_cast<const unsigned char*>(kBoth.data()),
                      kBoth.size());
  ShakeHands();
  const unsigned char* chosen = nullptr;
  unsigned int bytes = 0;
  SSL_get0_alpn_selected(client_.ssl(), &chosen, &bytes);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(chosen), bytes), "http/1.1");
}

TEST_F(TlsTest, RefusesAClientThatSpeaksOnlySomethingElse) {
  static constexpr std::string_view kOther = "\x02h2";
  SSL_set_alpn_protos(client_.ssl(), reinterpret_cast<const unsigned char*>(kOther.data()),
                      kOther.size());
  SSL_do_handshake(client_.ssl());
  std::string plain;
  EXPECT_EQ(session_.Receive(client_.Wire(), plain), Progress::kFailed);
}

TEST_F(TlsTest, TheEndIsSaidOnceAndHeard) {
  ShakeHands();
  std::string plain;
  const std::string last = client_.Encrypt("last");
  SSL_shutdown(client_.ssl());
  EXPECT_EQ(session_.Receive(last + client_.Wire() + "after the end", plain),
            Progress::kPeerClosed);
  EXPECT_EQ(plain, "last");
  EXPECT_TRUE(session_.Send("answer"));  // the other half is open
  EXPECT_TRUE(session_.SayClosing());
  EXPECT_FALSE(session_.SayClosing());
  client_.Take(session_.TakeOutput());
  EXPECT_EQ(client_.Read(), "answer");
  EXPECT_NE(SSL_get_shutdown(client_.ssl()) & SSL_RECEIVED_SHUTDOWN, 0);
}

TEST_F(TlsTest, RefusesToNegotiateAgain) {
  SSL_set_max_proto_version(client_.ssl(), TLS1_2_VERSION);
  ShakeHands();
  SSL_renegotiate(client_.ssl());
  SSL_do_handshake(client_.ssl());
  std::string plain;
  EXPECT_EQ(session_.Receive(client_.Wire(), plain), Progress::kOpen);  // with a warning back
  client_.Take(session_.TakeOutput());
  EXPECT_LE(SSL_do_handshake(client_.ssl()), 0);
}

TEST_F(TlsTest, BytesThatAreNotTlsFailAndGoOnFailing) {
  std::string plain;
  EXPECT_EQ(session_.Receive(std::string("\x16\x03\x01\x00\x05hello", 10), plain),
            Progress::kFailed);
  EXPECT_EQ(session_.Receive("more", plain), Progress::kFailed);
  EXPECT_EQ(plain, "");
  EXPECT_FALSE(session_.SayClosing());
}

TEST_F(TlsTest, DamagedRecordsFail) {
  ShakeHands();
  std::string wire = client_.Encrypt("hello");
  wire.back() = static_cast<char>(wire.back() ^ 1);
  std::string plain;
  EXPECT_EQ(session_.Receive(wire, plain), Progress::kFailed);
  EXPECT_EQ(plain, "");
  EXPECT_FALSE(session_.is_established());
}

TEST_F(TlsTest, TellsTlsFromPlainHttp) {
  SSL_do_handshake(client_.ssl());
  EXPECT_TRUE(LooksLikeTls(client_.Wire()));
  EXPECT_FALSE(LooksLikeTls("GET / HTTP/1.1"));
}

TEST(TlsContext, NamesTheFileThatIsWrong) {
  const std::string folder = ::testing::TempDir();
  const auto files = testing::WriteSelfSigned(folder, "tls_right");
  const auto others = testing::WriteSelfSigned(folder, "tls_other");
  const std::string garbage = folder + "/tls_garbage";
  std::ofstream(garbage) << "no PEM";
  const auto error_of = [](const std::string& certificate, const std::string& key) {
    const auto loaded = TlsContext::Load(certificate, key);
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? std::string() : loaded.error().message;
  };
  EXPECT_NE(error_of("/no/such.crt", files.key_path).find("'/no/such.crt'"), std::string::npos);
  EXPECT_NE(error_of(garbage, files.key_path).find("certificate '" + garbage), std::string::npos);
  EXPECT_NE(error_of(files.certificate_path, garbage).find("key '" + garbage), std::string::npos);
  EXPECT_NE(error_of(files.certificate_path, others.key_path).find(others.key_path),
            std::string::npos);
  EXPECT_TRUE(TlsContext::Load(files.certificate_path, files.key_path).ok());
}

}  // namespace
}  // namespace ashlar::net
