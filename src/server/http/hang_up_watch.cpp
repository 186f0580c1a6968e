#include "server/http/hang_up_watch.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/errors/error.h"
#include "core/memory/with_memory.h"

namespace nibble::server {
namespace {

int new_epoll() {
  const int handle = ::epoll_create1(EPOLL_CLOEXEC);
  if (handle < 0) throw InputError("can't watch connections for disconnects: {}", std::strerror(errno));
  return handle;
}

}  // namespace

HangUpWatch::HangUpWatch(boost::asio::io_context& io) : epoll_(io, new_epoll()) {}

void HangUpWatch::start() { wait(); }

void HangUpWatch::wait() {
  with_memory([&] {
    epoll_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (error) return;
                        self->call();
                        self->wait();
                      });
  });
}

void HangUpWatch::call() {
  epoll_event events[64];
  const int num_events = ::epoll_wait(epoll_.native_handle(), events, std::size(events), 0);
  for (int i = 0; i < num_events; ++i) {
    const auto found = functions_.find(events[i].data.fd);
    // The socket may have been removed by a function called earlier in this loop.
    if (found == functions_.end()) continue;
    const std::function<void()> function = std::move(found->second);
    remove(events[i].data.fd);
    function();
  }
}

void HangUpWatch::add(int socket, std::function<void()> function) {
  epoll_event event{};
  event.events = EPOLLRDHUP;  // EPOLLHUP and EPOLLERR are always reported
  event.data.fd = socket;
  // Set the function before adding the socket: an event without a function would repeat forever.
  functions_[socket] = std::move(function);
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, socket, &event) != 0) functions_.erase(socket);
}

void HangUpWatch::remove(int socket) {
  if (functions_.erase(socket) > 0) ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, socket, nullptr);
}

}  // namespace nibble::server
