#include "server/http/http_server.h"

#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "core/errors/error.h"
#include "core/memory/with_memory.h"
#include "core/program/log.h"
#include "server/http/connection.h"

namespace nibble::server {
namespace {

using boost::system::error_code;
using boost::system::system_error;
using tcp = asio::ip::tcp;
using Protocol = asio::generic::stream_protocol;

// Connections above --max-connections, reserved for health checks and metrics (HttpHandler::is_vital()).
constexpr int kKeptSlots{16};

tcp::endpoint endpoint_of(const std::string& host, uint16_t port) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    throw InputError("--host '{}': expected an address such as 127.0.0.1, 0.0.0.0 or ::, or localhost", host);
  return {address, port};
}

// Removes the socket file of a server that was killed: bind() would fail on it.
void remove_stale_socket(asio::io_context& io, const asio::local::stream_protocol::endpoint& endpoint) {
  std::error_code unknown;
  if (!std::filesystem::is_socket(endpoint.path(), unknown)) return;
  asio::local::stream_protocol::socket probe(io);
  error_code error;
  probe.connect(endpoint, error);
  if (error == asio::error::connection_refused) ::unlink(endpoint.path().c_str());
}

}  // namespace

void check_address(const HttpAddress& address) {
  if (address.unix_socket.empty()) {
    endpoint_of(address.host, address.port);
    return;
  }
  try {
    const asio::local::stream_protocol::endpoint endpoint(address.unix_socket);
  } catch (const system_error& error) {
    throw InputError("can't listen on --unix-socket '{}': {}", address.unix_socket, error.code().message());
  }
}

std::string address_text(const HttpAddress& address, uint16_t port) {
  if (!address.unix_socket.empty()) return "unix:" + address.unix_socket;
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return fmt::format("http://{0}{2}{1}:{3}", is_v6 ? "[" : "", is_v6 ? "]" : "", address.host, port);
}

struct HttpServer::Impl {
  Impl(asio::io_context& io, const HttpAddress& address, ConnectionContext shared);

  void listen(const Protocol& protocol, const Protocol::endpoint& endpoint);
  void start_to_accept();
  asio::awaitable<void> accept();
  asio::awaitable<void> serve(Protocol::socket socket);

  ConnectionContext context;
  std::string unix_socket;
  uint16_t port{0};
  asio::basic_socket_acceptor<Protocol> acceptor;
  asio::steady_timer connection_ended;
  std::shared_ptr<const std::function<void()>> accept_again{
      std::make_shared<const std::function<void()>>([this] { start_to_accept(); })};
};

HttpServer::Impl::Impl(asio::io_context& io, const HttpAddress& address, ConnectionContext shared)
    : context(std::move(shared)), acceptor(io), connection_ended(io) {
  if (!address.unix_socket.empty()) {
    try {
      const asio::local::stream_protocol::endpoint endpoint(address.unix_socket);
      remove_stale_socket(io, endpoint);
      listen(endpoint.protocol(), endpoint);
    } catch (const system_error& error) {
      throw InputError("can't listen on --unix-socket '{}': {}", address.unix_socket, error.code().message());
    }
    unix_socket = address.unix_socket;
    return;
  }
  const tcp::endpoint endpoint = endpoint_of(address.host, address.port);
  try {
    listen(endpoint.protocol(), endpoint);
  } catch (const system_error& error) {
    throw InputError("can't listen on {}:{}: {}; choose another address with --host and --port", address.host,
                     address.port, error.code().message());
  }
  const Protocol::endpoint bound = acceptor.local_endpoint();
  tcp::endpoint local;
  local.resize(bound.size());
  std::memcpy(local.data(), bound.data(), bound.size());
  port = local.port();
}

void HttpServer::Impl::listen(const Protocol& protocol, const Protocol::endpoint& endpoint) {
  acceptor.open(protocol);
  acceptor.set_option(asio::socket_base::reuse_address(true));
  acceptor.bind(endpoint);
  acceptor.listen();
}

namespace {

// Completion handler of accept(). If memory runs out, accept() throws, or Asio destroys the handler without a
// call. The destructor runs in both cases, and starts accept() again if the server still exists.
class AcceptAgain {
 public:
  AcceptAgain(std::weak_ptr<const std::function<void()>> start, Protocol::socket::executor_type executor)
      : start_(std::move(start)), executor_(std::move(executor)) {}
  AcceptAgain(AcceptAgain&&) = default;
  AcceptAgain& operator=(AcceptAgain&&) = delete;
  ~AcceptAgain() {
    if (start_.expired()) return;
    with_memory([&] {
      asio::post(executor_, [start = start_] {
        if (const auto held = start.lock()) (*held)();
      });
    });
  }
  void operator()(const std::exception_ptr&) const {}

 private:
  std::weak_ptr<const std::function<void()>> start_;
  Protocol::socket::executor_type executor_;
};

}  // namespace

void HttpServer::Impl::start_to_accept() {
  with_memory([&] {
    asio::co_spawn(acceptor.get_executor(), accept(), AcceptAgain(accept_again, acceptor.get_executor()));
  });
}

asio::awaitable<void> HttpServer::Impl::accept() {
  constexpr std::chrono::milliseconds kPause{100};
  ConnectionSlots& slots = *context.slots;
  for (;;) {
    error_code error;
    const bool is_full = slots.num_taken() >= context.limits.max_connections + kKeptSlots;
    Protocol::socket socket(acceptor.get_executor());
    if (!is_full) {
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) log::warn("can't accept a connection: {}", error.message());
    }
    // Make room after an error too: file descriptors may have run out.
    if (is_full || error || slots.num_taken() >= context.limits.max_connections) slots.make_room();
    if (is_full || error) {
      connection_ended.expires_after(kPause);
      co_await connection_ended.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    asio::co_spawn(acceptor.get_executor(), serve(std::move(socket)),
                   [this](const std::exception_ptr&) { connection_ended.cancel(); });
  }
}

asio::awaitable<void> HttpServer::Impl::serve(Protocol::socket socket) {
  Connection connection(std::move(socket), context);
  co_await connection.serve();
}

bool is_local(const HttpAddress& address) {
  if (!address.unix_socket.empty()) return true;
  const asio::ip::address listened = endpoint_of(address.host, address.port).address();
  if (listened.is_v6() && listened.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, listened.to_v6()).is_loopback();
  return listened.is_loopback();
}

HttpServer::HttpServer(asio::io_context& io, const HttpAddress& address, const HttpLimits& limits,
                       AccessRules access, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(
          io, address,
          ConnectionContext{
              .limits = limits,
              .access = std::move(access),
              .handler = handler,
              .bodies = std::make_shared<BodyBudget>(limits.max_bodies_bytes, limits.uncounted_body_bytes),
              .slots = std::make_shared<ConnectionSlots>(limits.max_connections),
              .hang_ups = std::make_shared<HangUpWatch>(io)})) {}

HttpServer::~HttpServer() {
  if (!impl_->unix_socket.empty()) ::unlink(impl_->unix_socket.c_str());
}

uint16_t HttpServer::port() const { return impl_->port; }
void HttpServer::start() {
  impl_->context.hang_ups->start();
  impl_->start_to_accept();
}
void HttpServer::drain() { impl_->context.is_draining = true; }
bool HttpServer::is_idle() const { return impl_->context.exchanges.use_count() == 1; }
uint64_t HttpServer::num_body_bytes() const { return impl_->context.bodies->num_bytes(); }

}  // namespace nibble::server
