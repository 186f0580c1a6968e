// A server has three threads. The I/O thread runs all coroutines. The thread that called serve() posts the
// engine's events to the I/O thread. The thread of Signals ends the process if another thread hangs.
#include "server/server.h"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <ctime>
#include <future>
#include <mutex>
#include <thread>

#include "core/errors/error.h"
#include "core/memory/memory_handler.h"
#include "core/memory/with_memory.h"
#include "core/program/log.h"
#include "core/program/service_manager.h"
#include "core/threads/thread_name.h"
#include "server/exit_codes.h"
#include "server/http/http_server.h"
#include "server/http/request_head.h"
#include "server/routes.h"
#include "server/service/condition.h"
#include "server/service/engine_gate.h"
#include "server/service/parse_pool.h"
#include "server/service/service.h"
#include "server/signals.h"

namespace nibble::server {
namespace {

using boost::system::error_code;

// Interval at which serve() checks whether the server has ended, while the engine sends no events.
constexpr std::chrono::milliseconds kPatience{50};
constexpr std::chrono::seconds kTrimInterval{5};  // interval at which freed memory is returned to the system

// Returns the accepted host names and origins. A loopback server without API keys trusts all local programs,
// but not pages of other sites in a local browser. So it accepts only local names and --allowed-host in the
// header Host. Other servers, and Unix sockets, accept any name unless --allowed-host is given.
AccessRules access_rules(const ServerOptions& options) {
  AccessRules rules{options.allowed_hosts, options.cors_origins};
  for (const std::string& host : rules.hosts)
    if (const auto name = split_authority(host); host != "*" && !(name && name->host == host))
      throw InputError(
          "--allowed-host '{}': expected a host name or an address without a port; IPv6 in brackets", host);
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
        signals({.end = [this] { on_signal(); },
                 .leave = [this](int code) { leave(code); },
                 .reload = [this] { post_to_io([this] { reload(); }); }}) {
    wait_for_memory_while_unwinding();
    notify_service_manager("STATUS=Loading " + given.model_id);
    http->start();
    thread = std::thread([this] { run_io(); });
  }

  ~Impl() { end(); }

  // Destroys coroutines and requests that still run, before the service that they use is destroyed.
  void end() {
    if (!thread.joinable()) return;
    const WaitForMemory waiting;  // destructors of coroutines allocate
    io->stop();
    thread.join();
    service.kept_answers.clear();  // timers of kept answers must not outlive the I/O context
    service.parse_pool.reset();    // drops bodies that wait to be parsed; waits for running jobs
    http.reset();
    std::unique_ptr<asio::io_context> last;
    {
      const std::lock_guard lock(io_mutex);
      last = std::move(io);
    }
    last.reset();
    service.gate.reset();
  }

  void run_io();
  // Runs `f` on the I/O thread. Does nothing after the I/O context was destroyed, because the signal thread
  // outlives the context.
  template <typename F>
  void post_to_io(F f) {
    const std::lock_guard lock(io_mutex);
    if (io) asio::post(*io, std::move(f));
  }
  void on_signal();
  [[noreturn]] void leave(int code);
  asio::awaitable<void> finish(asio::awaitable<void> (Impl::*part)());
  asio::awaitable<void> drain();
  asio::awaitable<void> give_up();
  void end_as(ServerEnd end, int code);
  void reload();
  asio::awaitable<void> give_back_memory();
  asio::awaitable<void> feed_watchdog(std::chrono::microseconds time);
  asio::awaitable<bool> wait_until_idle(std::chrono::milliseconds patience);

  Service service;
  Routes routes;
  std::mutex io_mutex;  // guards the pointer `io`, not the context
  std::unique_ptr<asio::io_context> io{std::make_unique<asio::io_context>(1)};
  std::unique_ptr<HttpServer> http;
  std::atomic<bool> is_open{false}, has_ended{false};
  std::atomic<ServerEnd> how_ended{ServerEnd::kCancelled};
  Signals signals;
  std::thread thread;
};

// Runs the I/O thread's loop. An exception that escapes a handler, such as bad_alloc, ends only that handler.
void Server::Impl::run_io() {
  name_thread("http");
  for (bool is_running = true; is_running;) {
    try {
      io->run();
      is_running = false;
    } catch (const std::exception& error) {
      log::warn("error in a handler; the I/O thread continues: {}", error.what());
    }
  }
}

// Runs on the signal thread. While the model loads, no request is being answered, so the process ends at
// once. The process must exit explicitly: process 1 of a container survives a signal's default action.
void Server::Impl::on_signal() {
  notify_service_manager("STOPPING=1\nSTATUS=Finishing running requests");
  if (!is_open) leave(kInterruptedCode);
  const ServerOptions& options = service.options;
  signals.leave_after(
      options.shutdown_delay + options.shutdown_timeout + 2 * options.last_words + options.teardown,
      kInterruptedCode);
  post_to_io([this] { with_memory([&] { asio::co_spawn(*io, finish(&Impl::drain), asio::detached); }); });
}

void Server::Impl::reload() {  // called on the I/O thread
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (is_open)
    notify_service_manager(
        fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000 + now.tv_nsec / 1'000));
  service.reload();
  if (is_open) notify_service_manager("READY=1");
}

// Runs on the signal thread. Destroys nothing, because a destructor may wait for a hanging thread or device.
void Server::Impl::leave(int code) {
  if (const std::string& path = service.options.address.unix_socket; !path.empty()) ::unlink(path.c_str());
  std::_Exit(code);
}

// Runs drain() or give_up() to its end, from its beginning each time that memory was short.
asio::awaitable<void> Server::Impl::finish(asio::awaitable<void> (Impl::*part)()) {
  for (;;) {
    try {
      co_await (this->*part)();
      co_return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

asio::awaitable<void> Server::Impl::drain() {
  http->drain();
  service.state = ServiceState::kLeaving;
  if (const auto delay = service.options.shutdown_delay; delay.count() > 0) {
    log::info("shutting down: new requests are accepted for another {} s", delay.count());
    asio::steady_timer timer(*io, delay);
    error_code error;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
  service.state = ServiceState::kDraining;
  log::info("draining: {} answers are running or waiting", service.gate->num_choices());
  if (co_await wait_until_idle(service.options.shutdown_timeout)) {
    end_as(ServerEnd::kComplete, 0);
  } else {
    log::warn("cancelling {} answers: --shutdown-timeout has passed", service.gate->num_choices());
    service.gate->cancel_all();
    if (!co_await wait_until_idle(service.options.last_words)) {
      service.gate->end_all();  // the engine does not respond: end all answers without it
      co_await wait_until_idle(service.options.last_words);
    }
    end_as(ServerEnd::kCancelled, kInterruptedCode);
  }
}

// Ends the server after the loss of the engine. Clients have time `last_words` to read their answers.
asio::awaitable<void> Server::Impl::give_up() {
  http->drain();
  service.state = ServiceState::kDraining;
  signals.leave_after(service.options.last_words + service.options.teardown, kEngineLostCode);
  co_await wait_until_idle(service.options.last_words);
  end_as(ServerEnd::kEngineLost, kEngineLostCode);
}

void Server::Impl::end_as(ServerEnd end, int code) {  // makes serve() return; only the first call counts
  if (has_ended) return;
  signals.leave_after(service.options.teardown, code);
  how_ended = end;
  has_ended = true;
}

// Returns freed memory to the system. glibc keeps memory of large bodies and answers in one heap per thread.
// malloc_trim() takes milliseconds per gigabyte, so it runs on the parse pool.
asio::awaitable<void> Server::Impl::give_back_memory() {
  asio::steady_timer timer(*io);
  for (uint64_t num_answered = 0;;) {
    error_code error;
    timer.expires_after(kTrimInterval);
    try {
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      if (num_answered == service.num_answered) continue;
      num_answered = service.num_answered;
      service.parse_pool->add(std::make_shared<ParsePool::Job>(
          ParsePool::Job{0, [] { ::malloc_trim(0); }, [](const std::exception_ptr&) {}}));
    } catch (const std::bad_alloc&) {  // retry at the next interval
    }
  }
}

// Sends a message to the service manager's watchdog while this thread and the engine make progress. Without a
// message for `time`, the service manager ends the server.
asio::awaitable<void> Server::Impl::feed_watchdog(std::chrono::microseconds time) {
  asio::steady_timer timer(*io);
  for (error_code error; !error;) {
    try {
      if (condition_of(service).stall != Stall::kForever) notify_service_manager("WATCHDOG=1");
    } catch (const std::bad_alloc&) {  // the next attempt follows after half of `time`
    }
    timer.expires_after(time / 2);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

asio::awaitable<bool> Server::Impl::wait_until_idle(std::chrono::milliseconds patience) {
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

void Server::report_loading(size_t done, size_t total) {
  impl_->service.loading_percent =
      static_cast<int>(total == 0 ? 0 : 100.0 * static_cast<double>(done) / static_cast<double>(total));
}

std::string Server::address() const { return address_text(impl_->service.options.address, port()); }

uint16_t Server::port() const { return impl_->http->port(); }

void Server::on_reload(std::function<void()> reload) {
  asio::post(*impl_->io, [this, held = std::move(reload)]() mutable {
    impl_->service.on_reload.push_back(std::move(held));
  });
}

void Server::open(Engine& engine, const ServedModel& model, size_t max_requests) {
  Impl& server = *impl_;
  std::promise<void> is_open;
  asio::post(*server.io, [&] {
    server.service.model = model;
    server.service.gate =
        std::make_unique<EngineGate>(server.io->get_executor(), engine, server.service.metrics, max_requests);
    server.service.state = ServiceState::kReady;
    asio::co_spawn(*server.io, server.give_back_memory(), asio::detached);
    if (const auto time = watchdog_time())
      asio::co_spawn(*server.io, server.feed_watchdog(*time), asio::detached);
    server.is_open = true;
    notify_service_manager(
        fmt::format("READY=1\nSTATUS=Serving {} on {}", server.service.options.model_id, address()));
    is_open.set_value();
  });
  is_open.get_future().wait();
}

ServerEnd Server::serve(Engine& engine) {
  Impl& server = *impl_;
  for (bool is_lost = false; !server.has_ended;) {
    std::vector<Event> events = engine.wait_events(kPatience);
    if (!events.empty()) {
      const auto held = with_memory([&] { return std::make_shared<std::vector<Event>>(std::move(events)); });
      with_memory([&] {
        asio::post(*server.io, [&server, held] {
          for (Event& event : *held) server.service.gate->deliver(std::move(event));
        });
      });
    } else if (!is_lost && with_memory([&] { return !engine.state().lost.empty(); })) {
      is_lost = true;
      with_memory([&] { asio::co_spawn(*server.io, server.finish(&Impl::give_up), asio::detached); });
    }
  }
  server.end();
  return server.how_ended;
}

}  // namespace nibble::server
