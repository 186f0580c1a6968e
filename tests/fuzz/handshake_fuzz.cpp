// Feeds any bytes to both sides of the node handshake, as from a peer without the secret. No such peer may
// join, or be taken for the head.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/errors/error.h"
#include "nodes/handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  using namespace nibble::nodes;
  if (size == 0 || size > 4096) return 0;
  asio::io_context io(1);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  tcp::socket socket(io, tcp::v4(), ends[0]);
  if (::write(ends[1], data + 1, size - 1) != static_cast<ssize_t>(size - 1)) std::abort();
  ::shutdown(ends[1], SHUT_WR);
  const Secret secret("a secret of some bytes", "fuzz");
  bool has_passed = false;
  const auto note = [&](const std::exception_ptr& error, const auto&) {
    has_passed = !error;
    try {
      if (error) std::rethrow_exception(error);
    } catch (const InputError& refusal) {
      if (std::string_view(refusal.what()).find('\n') != std::string_view::npos) std::abort();
    }
  };
  const std::string address = "127.0.0.1:7000";
  if (data[0] % 2 == 0)
    asio::co_spawn(io,
                   receive_follower(
                       socket, {secret, {}, {1, 1, 1}, {}, [](const Joining&) { return Answer::kWelcome; }}),
                   note);
  else
    asio::co_spawn(io, join_head(socket, secret, {}, {1, Channel::kControl}, address), note);
  io.run();
  ::close(ends[1]);
  if (has_passed) std::abort();
  return 0;
}
