#include "load/http_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace ashlar::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Deadline = std::chrono::steady_clock::time_point;

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;
template <typename Stream>
constexpr bool kIsTls = std::is_same_v<Stream, TlsStream>;

constexpr std::uint32_t kMaxHeaderBytes = 64 * 1024;
constexpr std::size_t kBodyPieceBytes = 8 * 1024;
constexpr int kHandlersInARow = 256;  // before RunFor returns to its caller

Failure FailureOf(const error_code& error) {
  static const auto& http_category = http::make_error_code(http::error::end_of_stream).category();
  if (error == beast::error::timeout) return {"timeout", "no whole answer in time"};
  const bool is_end = error == http::error::end_of_stream || error == http::error::partial_message;
  if (error.category() == http_category && !is_end) return {"protocol", error.message()};
  return {"cut", error.message()};
}

// A connection. The buffer may hold bytes that came behind an answer.
template <typename Stream>
struct Link {
  template <typename... Args>
  explicit Link(Args&&... args) : stream(std::forward<Args>(args)...) {}
  Stream stream;
  beast::flat_buffer buffer;

  beast::tcp_stream& socket() { return beast::get_lowest_layer(stream); }
};

// What all exchanges share.
template <typename Stream>
struct Shared {
  asio::io_context io{1};
  asio::ssl::context tls{asio::ssl::context::tls_client};
  HttpClientOptions options;
  tcp::resolver::results_type endpoints;
  std::vector<std::unique_ptr<Link<Stream>>> idle;  // the one used last is taken first
  std::uint64_t opened = 0;
};

// One request and its answer: connect, handshake, write, read. Kept alive by its pending operation.
template <typename Stream>
class Exchange final : public std::enable_shared_from_this<Exchange<Stream>> {
 public:
  Exchange(Shared<Stream>& shared, HttpCall call, std::unique_ptr<ReplySink> sink)
      : shared_(shared),
        sink_(std::move(sink)),
        deadline_(std::chrono::steady_clock::now() +
                  std::chrono::nanoseconds(shared.options.timeout_ns)) {
    const HttpClientOptions& options = shared.options;
    request_.version(11);
    request_.method_string(call.method);
    request_.target(options.target.root + call.path);
    request_.set(http::field::host, options.target.authority());
    request_.set(http::field::user_agent, "ashlar-bench");
    request_.set(http::field::accept, "*/*");
    if (!options.api_key.empty()) {
      request_.set(http::field::authorization, "Bearer " + options.api_key);
    }
    if (call.method == "POST") request_.set(http::field::content_type, "application/json");
    request_.body() = std::move(call.body);
    request_.prepare_payload();
  }

  void Start() {
    if (shared_.idle.empty()) return Connect();
    link_ = std::move(shared_.idle.back());
    shared_.idle.pop_back();
    is_reused_ = true;
    Write();
  }

 private:
  // A handler that keeps this alive.
  template <typename Handler>
  auto Then(Handler handler) {
    return [self = this->shared_from_this(), handler](const error_code& error, auto&&...) {
      (self.get()->*handler)(error);
    };
  }

  void Connect() {
    is_reused_ = false;
    if constexpr (kIsTls<Stream>) {
      link_ = std::make_unique<Link<Stream>>(shared_.io, shared_.tls);
    } else {
      link_ = std::make_unique<Link<Stream>>(shared_.io);
    }
    ++shared_.opened;
    const auto soon = std::chrono::steady_clock::now() +
                      std::chrono::nanoseconds(shared_.options.connect_timeout_ns);
    link_->socket().expires_at(std::min(deadline_, soon));
    link_->socket().async_connect(shared_.endpoints, Then(&Exchange::OnConnected));
  }

  void OnConnected(const error_code& error) {
    if (error) return End(Failure{"connect", error.message()});
    error_code ignored;
    link_->socket().socket().set_option(tcp::no_delay(true), ignored);
    if constexpr (kIsTls<Stream>) {
      const std::string& host = shared_.options.target.host;
      SSL_set_tlsext_host_name(link_->stream.native_handle(), host.c_str());
      if (shared_.options.verifies) {
        link_->stream.set_verify_callback(asio::ssl::host_name_verification(host));
      }
      link_->stream.async_handshake(asio::ssl::stream_base::client, Then(&Exchange::OnHandshake));
    } else {
      Write();
    }
  }

  void OnHandshake(const error_code& error) {
    if (error) return End(Failure{"connect", "TLS: " + error.message()});
    Write();
  }

  void Write() {
    link_->socket().expires_at(deadline_);
    http::async_write(link_->stream, request_, Then(&Exchange::OnWritten));
  }

  void OnWritten(const error_code& error) {
    if (error) return OnLost(error);
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(boost::none);
    piece_.resize(kBodyPieceBytes);
    SetPiece();
    http::async_read_header(link_->stream, link_->buffer, *parser_, Then(&Exchange::OnHead));
  }

  // The server may close a connection it has kept long enough just when we use it again.
  void OnLost(const error_code& error) {
    const bool has_begun = parser_ && parser_->got_some();
    if (is_reused_ && !has_begun && error != beast::error::timeout) {
      shared_.idle.clear();  // these are as old
      parser_.reset();
      return Connect();
    }
    End(FailureOf(error));
  }

  void OnHead(const error_code& error) {
    if (error) return OnLost(error);
    sink_->OnHead(static_cast<int>(parser_->get().result_int()));
    PassOn();
  }

  void OnBody(const error_code& error) {
    // The piece is full: that is all need_buffer means.
    if (error && error != http::error::need_buffer) {
      if (PassOnPiece()) End(FailureOf(error));
      return;
    }
    PassOn();
  }

  void PassOn() {
    if (!PassOnPiece()) return;
    if (parser_->is_done()) return End(std::nullopt);
    // The parser is not eager, so this ends with every chunk.
    http::async_read_some(link_->stream, link_->buffer, *parser_, Then(&Exchange::OnBody));
  }

  // False when the sink had enough, and all is over.
  bool PassOnPiece() {
    const std::size_t bytes = piece_.size() - parser_->get().body().size;
    std::optional<Failure> failure;
    if (bytes > 0) failure = sink_->OnBody({piece_.data(), bytes});
    SetPiece();
    if (failure) End(std::move(failure));
    return !failure;
  }

  void SetPiece() {
    parser_->get().body().data = piece_.data();
    parser_->get().body().size = piece_.size();
    parser_->get().body().more = true;
  }

  void End(std::optional<Failure> failure) {
    if (!failure && parser_->keep_alive()) {
      link_->socket().expires_never();
      shared_.idle.push_back(std::move(link_));
    } else {
      link_.reset();
    }
    std::exchange(sink_, nullptr)->OnEnd(std::move(failure));
  }

  Shared<Stream>& shared_;
  std::unique_ptr<ReplySink> sink_;
  const Deadline deadline_;
  http::request<http::string_body> request_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::string piece_;
  std::unique_ptr<Link<Stream>> link_;
  bool is_reused_ = false;
};

}  // namespace

class HttpClient::Impl {
 public:
  virtual ~Impl() = default;
  virtual void Send(HttpCall call, std::unique_ptr<ReplySink> sink) = 0;
  virtual void RunFor(std::int64_t max_wait_ns) = 0;
  virtual std::uint64_t opened() const = 0;
};

namespace {

template <typename Base, typename Stream>
class ImplOf final : public Base {
 public:
  Status Open(const HttpClientOptions& options) {
    shared_.options = options;
    error_code error;
    tcp::resolver resolver(shared_.io);
    shared_.endpoints =
        resolver.resolve(options.target.host, std::to_string(options.target.port), error);
    if (error) {
      return MakeError(ErrorCode::kNotFound, "cannot find the host '{}': {}", options.target.host,
                       error.message());
    }
    if constexpr (kIsTls<Stream>) {
      shared_.tls.set_verify_mode(
          options.verifies ? asio::ssl::verify_peer : asio::ssl::verify_none, error);
      if (!options.ca_file.empty()) {
        shared_.tls.load_verify_file(options.ca_file, error);
        if (error) {
          return MakeError(ErrorCode::kInvalidArgument, "cannot read certificates from '{}': {}",
                           options.ca_file, error.message());
        }
      } else {
        shared_.tls.set_default_verify_paths(error);
      }
    }
    return {};
  }

  void Send(HttpCall call, std::unique_ptr<ReplySink> sink) override {
    std::make_shared<Exchange<Stream>>(shared_, std::move(call), std::move(sink))->Start();
  }

  void RunFor(std::int64_t max_wait_ns) override {
    shared_.io.run_one_for(std::chrono::nanoseconds(std::max<std::int64_t>(max_wait_ns, 0)));
    for (int i = 0; i < kHandlersInARow && shared_.io.poll_one() > 0; ++i) {
    }
  }

  std::uint64_t opened() const override { return shared_.opened; }

 private:
  // Exchanges are destroyed with the context that their operations wait in, its last member to go.
  Shared<Stream> shared_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_{shared_.io.get_executor()};
};

class WholeReply final : public ReplySink {
 public:
  struct State {
    int status = 0;
    std::string body;
    bool is_done = false;
    std::optional<Failure> failure;
  };
  explicit WholeReply(State& state) : state_(state) {}

  void OnHead(int status) override { state_.status = status; }
  std::optional<Failure> OnBody(std::string_view bytes) override {
    if (state_.body.size() + bytes.size() > kMaxFetchedBytes) {
      return Failure{"too long", fmt::format("more than {} bytes", kMaxFetchedBytes)};
    }
    state_.body += bytes;
    return std::nullopt;
  }
  void OnEnd(std::optional<Failure> failure) override {
    state_.failure = std::move(failure);
    state_.is_done = true;
  }

 private:
  State& state_;
};

}  // namespace

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::Open(const HttpClientOptions& options) {
  if (std::ranges::any_of(options.api_key, [](char c) { return c < ' ' || c > '~'; })) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the API key has a character that no HTTP header may have");
  }
  const auto open = [&](auto impl) -> Result<std::unique_ptr<HttpClient>> {
    ASHLAR_TRY(impl->Open(options));
    return std::unique_ptr<HttpClient>(new HttpClient(std::move(impl)));
  };
  return options.target.is_tls ? open(std::make_unique<ImplOf<Impl, TlsStream>>())
                               : open(std::make_unique<ImplOf<Impl, PlainStream>>());
}

void HttpClient::Send(HttpCall call, std::unique_ptr<ReplySink> sink) {
  impl_->Send(std::move(call), std::move(sink));
}

void HttpClient::RunFor(std::int64_t max_wait_ns) { impl_->RunFor(max_wait_ns); }

std::uint64_t HttpClient::connections_opened() const { return impl_->opened(); }

Result<std::string> Fetch(HttpClient& client, HttpCall call) {
  constexpr std::int64_t kLookAgainNs = 100'000'000;
  const std::string name = fmt::format("{} {}", call.method, call.path);
  WholeReply::State state;
  client.Send(std::move(call), std::make_unique<WholeReply>(state));
  while (!state.is_done) client.RunFor(kLookAgainNs);
  if (state.failure) {
    return MakeError(ErrorCode::kUnavailable, "{}: {}: {}", name, state.failure->kind,
                     state.failure->message);
  }
  if (state.status == 200) return std::move(state.body);
  const bool is_missing = state.status == 404 || state.status == 405;
  const ErrorCode code = is_missing            ? ErrorCode::kNotFound
                         : state.status >= 500 ? ErrorCode::kUnavailable
                                               : ErrorCode::kInvalidArgument;
  return MakeError(code, "{}: http {}: {}", name, state.status, Printable(state.body));
}

}  // namespace ashlar::load
