#include "server/signals.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <thread>
#include <utility>

#include "core/memory/memory_handler.h"
#include "server/exit_codes.h"

namespace nibble::server {

namespace asio = boost::asio;
using boost::system::error_code;

struct Signals::Impl {
  explicit Impl(Actions given) : actions(std::move(given)) {
    wait_for_end();
    wait_for_hangup();
    thread = std::thread([this] {
      const WaitForMemory waiting;  // an exception would end this thread, and so the process
      io.run();
    });
  }
  ~Impl() {
    io.stop();
    thread.join();
  }

  void wait_for_end() {
    ends.async_wait([this](const error_code& error, int) {
      if (error) return;
      if (std::exchange(has_come, true)) return actions.leave(kInterruptedCode);
      actions.end();
      wait_for_end();
    });
  }
  void wait_for_hangup() {
    hangup.async_wait([this](const error_code& error, int) {
      if (error) return;
      actions.reload();
      wait_for_hangup();
    });
  }

  Actions actions;
  asio::io_context io{1};
  asio::signal_set ends{io, SIGINT, SIGTERM}, hangup{io, SIGHUP};
  asio::steady_timer limit{io};
  bool has_come{false};
  std::thread thread;
};

Signals::Signals(Actions actions) : impl_(std::make_unique<Impl>(std::move(actions))) {}

Signals::~Signals() {
  impl_.reset();
  // asio has restored the default action, by which SIGHUP would kill a process that is ending normally.
  std::signal(SIGHUP, SIG_IGN);
}

void Signals::leave_after(std::chrono::milliseconds limit, int code) {
  // Capture the object, not impl_: impl_ is null during destruction, while the signal thread still runs.
  asio::post(impl_->io, [impl = impl_.get(), limit, code] {
    impl->limit.expires_after(limit);
    impl->limit.async_wait([impl, code](const error_code& cancelled) {
      if (!cancelled) impl->actions.leave(code);
    });
  });
}

}  // namespace nibble::server
