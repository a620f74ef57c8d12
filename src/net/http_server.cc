#include "net/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <thread>

#include "base/log.h"
#include "net/connection.h"

namespace ashlar::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Connections over max_connections that are being told so; above, they are closed without a word.
constexpr std::size_t kMaxRefusing = 64;
// Descriptors for everything that is not a connection.
constexpr std::size_t kSpareDescriptors = 128;
constexpr auto kAcceptRetry = std::chrono::milliseconds(50);

// Where to listen: the first address that the host has. kInvalidArgument when it has none.
Result<tcp::endpoint> EndpointOf(const std::string& host, std::uint16_t port) {
  error_code error;
  asio::io_context io;
  const auto found = tcp::resolver(io).resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (host.empty() || error || found.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cannot find the host '{}'; give an address such as 127.0.0.1 or 0.0.0.0",
                     host);
  }
  return found.begin()->endpoint();
}

Error BindError(const HttpServerOptions& options, const error_code& error) {
  if (error == asio::error::address_in_use) {
    return MakeError(
        ErrorCode::kIo,
        "{}:{} is already in use by another program; stop it, or choose another port with "
        "--port (0: any free one)",
        options.host, options.port);
  }
  if (error == asio::error::access_denied) {
    return MakeError(ErrorCode::kIo,
                     "no right to listen on {}:{}; choose a port above 1023 with --port",
                     options.host, options.port);
  }
  if (error == boost::system::errc::address_not_available) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "{} is not an address of this machine; use 127.0.0.1 for local clients only, or "
        "0.0.0.0 for all",
        options.host);
  }
  return MakeError(ErrorCode::kIo, "cannot listen on {}:{}: {}", options.host, options.port,
                   error.message());
}

Status CheckOptions(const HttpServerOptions& options) {
  const auto check = [](bool ok, std::string_view name, auto value,
                        std::string_view range) -> Status {
    if (!ok) {
      return MakeError(ErrorCode::kInvalidArgument, "{} is {}; it must be {}", name, value, range);
    }
    return {};
  };
  ASHLAR_TRY(check(options.io_threads >= 1 && options.io_threads <= 64, "io_threads",
                   options.io_threads, "1 to 64"));
  ASHLAR_TRY(check(options.max_connections >= 1 && options.max_connections <= 1'000'000,
                   "max_connections", options.max_connections, "1 to 1000000"));
  ASHLAR_TRY(check(options.max_header_bytes >= 256 && options.max_header_bytes <= (1u << 30),
                   "max_header_bytes", options.max_header_bytes, "256 to 1 GiB"));
  const auto check_ms = [&](std::string_view name, std::int64_t value) {
    return check(value >= 1 && value <= 86'400'000, name, value, "1 to 86400000");
  };
  ASHLAR_TRY(check_ms("idle_timeout_ms", options.idle_timeout_ms));
  ASHLAR_TRY(check_ms("heartbeat_ms", options.heartbeat_ms));
  return check_ms("tls_handshake_timeout_ms", options.tls_handshake_timeout_ms);
}

// Each connection takes a descriptor; the usual soft limit of 1024 is far below what we can serve.
void RaiseDescriptorLimit(std::size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
    return;
  }
  limit.rlim_cur =
      limit.rlim_max == RLIM_INFINITY ? wanted : std::min<rlim_t>(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    ASHLAR_LOG_WARNING(
        "net: only {} file descriptors are allowed (ulimit -n); fewer connections than "
        "the limit asks for will be served",
        limit.rlim_cur);
  }
}

// Answers leave at once. A machine that vanished is noticed, whether we have sent it something that
// it does not confirm or not: after idle_timeout_ms, where the system's defaults are hours.
void TuneSocket(int socket, std::int64_t idle_timeout_ms) {
  const auto set = [socket](int level, int name, int value) {
    (void)setsockopt(socket, level, name, &value, sizeof(value));
  };
  constexpr int kProbes = 4;
  const int period_s =
      static_cast<int>(std::clamp<std::int64_t>(idle_timeout_ms / 1000 / (kProbes + 1), 1, 3600));
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, period_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, period_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(idle_timeout_ms));
}

class AsioHttpServer final : public HttpServer {
 public:
  AsioHttpServer(const HttpServerOptions& options, HttpHandler handler)
      : core_(std::make_shared<ServerCore>(options, std::move(handler))),
        acceptor_(asio::make_strand(core_->io)),
        retry_(acceptor_.get_executor()) {}

  ~AsioHttpServer() override { Stop(0); }

  Status Listen();
  void Run();

  std::uint16_t port() const override { return port_; }
  void Stop(std::int64_t drain_ms) override;

 private:
  void Accept();
  void OnAccept(const error_code& error, Socket socket);
  void TakeConnection(Socket socket);

  const std::shared_ptr<ServerCore> core_;
  asio::basic_socket_acceptor<tcp, Strand> acceptor_;
  asio::steady_timer retry_;
  std::uint16_t port_ = 0;
  std::vector<std::thread> threads_;
  std::mutex stop_mutex_;
  bool is_stopped_ = false;  // protected by stop_mutex_
};

Status AsioHttpServer::Listen() {
  const HttpServerOptions& options = core_->options;
  ASHLAR_ASSIGN(const tcp::endpoint endpoint, EndpointOf(options.host, options.port));
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return BindError(options, error);
  }
  port_ = acceptor_.local_endpoint(error).port();
  return {};
}

void AsioHttpServer::Run() {
  RaiseDescriptorLimit(core_->options.max_connections + kMaxRefusing + kSpareDescriptors);
  asio::post(acceptor_.get_executor(), [this] { Accept(); });
  for (std::size_t i = 0; i < core_->options.io_threads; ++i) {
    threads_.emplace_back([core = core_.get()] {
      for (;;) {
        try {
          core->io.run();
          return;
        } catch (const std::exception& error) {
          ASHLAR_LOG_ERROR("net: {}", error.what());
        }
      }
    });
  }
}

void AsioHttpServer::Accept() {
  acceptor_.async_accept(asio::make_strand(core_->io), [this](error_code error, Socket socket) {
    OnAccept(error, std::move(socket));
  });
}

void AsioHttpServer::OnAccept(const error_code& error, Socket socket) {
  if (!acceptor_.is_open()) {
    return;
  }
  if (error) {
    // Out of descriptors or memory: those waiting wait a little longer.
    ASHLAR_LOG_WARNING("net: cannot accept a connection: {}", error.message());
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([this](error_code cancelled) {
      if (!cancelled && acceptor_.is_open()) {
        Accept();
      }
    });
    return;
  }
  try {
    TakeConnection(std::move(socket));
  } catch (
      const std::exception& failure) {  // out of memory: this client is lost, not those to come
    ASHLAR_LOG_ERROR("net: cannot take a connection: {}", failure.what());
  }
  Accept();
}

void AsioHttpServer::TakeConnection(Socket socket) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  TuneSocket(socket.native_handle(), core_->options.idle_timeout_ms);
  const auto connection = std::make_shared<Connection>(core_, std::move(socket));
  std::size_t count = 0;
  {
    const std::lock_guard lock(core_->mutex);
    count = core_->connections.size();
    if (count < core_->options.max_connections + kMaxRefusing && !core_->is_draining) {
      core_->connections.emplace(connection.get(), connection);
    } else {
      count = core_->options.max_connections + kMaxRefusing;
    }
  }
  if (count < core_->options.max_connections) {
    connection->Start();
  } else if (count < core_->options.max_connections + kMaxRefusing) {
    connection->StartRefusing();
  }
}

void AsioHttpServer::Stop(std::int64_t drain_ms) {
  const std::lock_guard stop_lock(stop_mutex_);
  if (std::exchange(is_stopped_, true)) {
    return;
  }
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  });
  const auto for_each_connection = [this](void (Connection::*action)()) {
    std::vector<std::shared_ptr<Connection>> open;
    {
      const std::lock_guard lock(core_->mutex);
      core_->is_draining = true;
      for (const auto& [key, connection] : core_->connections) {
        open.push_back(connection);
      }
    }
    for (const auto& connection : open) {
      (connection.get()->*action)();
    }
  };
  if (drain_ms > 0) {
    for_each_connection(&Connection::BeginDrain);
    std::unique_lock lock(core_->mutex);
    core_->all_closed.wait_for(lock, std::chrono::milliseconds(drain_ms),
                               [this] { return core_->connections.empty(); });
  }
  for_each_connection(&Connection::ForceClose);
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

}  // namespace

bool IsOnLoopback(const std::string& host) {
  const auto endpoint = EndpointOf(host, 0);
  if (!endpoint.ok()) return false;
  const asio::ip::address address = endpoint->address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                      HttpHandler handler) {
  ASHLAR_TRY(CheckOptions(options));
  try {
    auto server = std::make_unique<AsioHttpServer>(options, std::move(handler));
    ASHLAR_TRY(server->Listen());
    server->Run();
    return Result<std::unique_ptr<HttpServer>>(std::move(server));
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kIo, "cannot start the HTTP server: {}", error.what());
  }
}

}  // namespace ashlar::net
