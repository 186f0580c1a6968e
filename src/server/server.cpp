// There are two threads: all coroutines run on the I/O thread; the thread that calls serve() takes events from the engine
// and posts them to the I/O thread.
#include "server/server.h"

#include <malloc.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "server/http/http_server.h"
#include "server/http/request_head.h"
#include "server/routes.h"
#include "server/service/engine_gate.h"
#include "server/service/parse_pool.h"
#include "server/service/service.h"

namespace nibble::server {
namespace {

using boost::system::error_code;

// While the engine has no events, serve() looks this often whether the server has ended.
constexpr std::chrono::milliseconds kPatience{50};
// Memory that requests took is given back this often.
constexpr std::chrono::seconds kTrimInterval{5};
// Time to send the error to clients whose requests were cancelled at shutdown.
constexpr std::chrono::seconds kLastWords{2};
// The exit code after a signal while the model loads: nothing can be lost then. The default action would not do, because the kernel keeps
// it from the first process of a container, which is what the server is there.
constexpr int kInterruptedCode{130};

// Where only programs of this machine ask, and without a key, a page that a browser of this machine shows must not be one of them: then,
// or where names are given, only known names are answered. A Unix socket is out of a browser's reach.
AccessRules access_rules(const ServerOptions& options) {
  AccessRules rules{options.allowed_hosts, options.cors_origins};
  for (const std::string& host : rules.hosts)
    if (const auto name = split_authority(host); host != "*" && !(name && name->host == host))
      throw InputError(
          "--allowed-host '{}': accepted is a name or an address, [IPV6] in brackets, without a port", host);
  const HttpAddress& address = options.address;
  const bool is_open = options.api_keys.empty() && address.unix_socket.empty() && is_local(address);
  if (!is_open && rules.hosts.empty()) return rules;
  rules.hosts.insert(rules.hosts.begin(), {"localhost", "127.0.0.1", "[::1]"});
  return rules;
}

}  // namespace

struct Server::Impl {
  explicit Impl(const ServerOptions& given)
      : service(given),
        routes(service),
        http(std::make_unique<HttpServer>(*io, given.address, given.limits, access_rules(given), routes)),
        signals(std::make_unique<asio::signal_set>(*io, SIGINT, SIGTERM)) {
    http->start();
    asio::co_spawn(*io, end_on_signal(), asio::detached);
    thread = std::thread([this] { io->run(); });
  }

  ~Impl() { end(); }

  // Destroys the coroutines that still run, and their requests with them. They use the service, which goes last.
  void end() {
    if (!thread.joinable()) return;
    io->stop();
    thread.join();
    service.parse_pool
        .reset();  // bodies that wait are dropped; those that are being parsed are finished first
    signals.reset();
    http.reset();
    io.reset();
    service.gate.reset();
  }

  asio::awaitable<void> end_on_signal();
  asio::awaitable<void> give_back_memory();
  asio::awaitable<bool> wait_until_idle(std::chrono::seconds patience);

  Service service;
  Routes routes;
  std::unique_ptr<asio::io_context> io{std::make_unique<asio::io_context>(1)};
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<asio::signal_set> signals;
  std::atomic<bool> has_ended{false}, was_complete{false};
  std::thread thread;
};

asio::awaitable<void> Server::Impl::end_on_signal() {
  error_code error;
  co_await signals->async_wait(asio::redirect_error(asio::use_awaitable, error));
  if (service.state == ServiceState::kLoading) std::_Exit(kInterruptedCode);
  signals->async_wait([this](const error_code& ended, int) {
    if (!ended) has_ended = true;  // the second signal
  });
  http->drain();
  service.state = ServiceState::kLeaving;
  if (const auto delay = service.options.shutdown_delay; delay.count() > 0) {
    log::info("leaving: requests are taken for {} s more", delay.count());
    asio::steady_timer timer(*io, delay);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
  service.state = ServiceState::kDraining;
  log::info("draining: {} requests run or wait", service.gate->num_choices());
  was_complete = co_await wait_until_idle(service.options.shutdown_timeout);
  if (!was_complete) {
    log::warn("{} requests are cancelled: --shutdown-timeout has passed", service.gate->num_choices());
    service.gate->cancel_all();
    co_await wait_until_idle(kLastWords);
  }
  has_ended = true;
}

// glibc keeps what large bodies and answers took, in one heap for each thread: megabytes for each request that there ever was at one time.
// It runs beside the I/O thread because it takes milliseconds for each gigabyte.
asio::awaitable<void> Server::Impl::give_back_memory() {
  asio::steady_timer timer(*io);
  for (uint64_t num_answered = 0;;) {
    error_code error;
    timer.expires_after(kTrimInterval);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    if (num_answered == service.num_answered) continue;
    num_answered = service.num_answered;
    service.parse_pool->add(std::make_shared<ParsePool::Job>(
        ParsePool::Job{0, [] { ::malloc_trim(0); }, [](const std::exception_ptr&) {}}));
  }
}

asio::awaitable<bool> Server::Impl::wait_until_idle(std::chrono::seconds patience) {
  asio::steady_timer timer(*io);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!http->is_idle()) {
    if (std::chrono::steady_clock::now() >= end) co_return false;
    error_code error;
    timer.expires_after(std::chrono::milliseconds(20));
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
  co_return true;
}

Server::Server(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;

Metrics& Server::metrics() { return impl_->service.metrics; }

std::string Server::address() const {
  const HttpAddress& given = impl_->service.options.address;
  if (!given.unix_socket.empty()) return "unix:" + given.unix_socket;
  const bool is_v6 = given.host.find(':') != std::string::npos;
  return fmt::format("http://{0}{2}{1}:{3}", is_v6 ? "[" : "", is_v6 ? "]" : "", given.host, port());
}

uint16_t Server::port() const { return impl_->http->port(); }

void Server::open(Engine& engine, const ServedModel& model, size_t max_requests) {
  Impl& server = *impl_;
  std::promise<void> is_open;
  asio::post(*server.io, [&] {
    server.service.model = model;
    server.service.gate =
        std::make_unique<EngineGate>(server.io->get_executor(), engine, server.service.metrics, max_requests);
    server.service.state = ServiceState::kReady;
    asio::co_spawn(*server.io, server.give_back_memory(), asio::detached);
    is_open.set_value();
  });
  is_open.get_future().wait();
}

bool Server::serve(Engine& engine) {
  Impl& server = *impl_;
  while (!server.has_ended) {
    std::optional<Event> event = engine.wait_event(kPatience);
    if (!event) continue;
    asio::post(*server.io, [&server, held = std::move(*event)]() mutable {
      server.service.gate->deliver(std::move(held));
    });
  }
  server.end();
  return server.was_complete;
}

}  // namespace nibble::server
