// HTTP/1.1 on one thread, over TCP or a Unix socket. Accepts connections within limits; a handler answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/http/access.h"
#include "server/http/limits.h"

namespace boost::asio {
class io_context;
}

namespace nibble::server {

class HttpHandler;

// Throws InputError for an invalid address, like HttpServer. Does not check whether the address is free.
void check_address(const HttpAddress& address);
// Returns "http://127.0.0.1:8080", or "unix:PATH".
std::string address_text(const HttpAddress& address, uint16_t port);
// Whether only programs on this machine can reach the address. Throws InputError if it is invalid.
bool is_local(const HttpAddress& address);

class HttpServer {
 public:
  // Binds the address. Throws InputError on failure.
  HttpServer(boost::asio::io_context& io, const HttpAddress& address, const HttpLimits& limits,
             AccessRules access, HttpHandler& handler);
  ~HttpServer();

  uint16_t port() const;  // 0 on a Unix socket
  void start();
  void drain();          // from now on, each connection closes after its next answer
  bool is_idle() const;  // whether every answer is complete
  uint64_t num_body_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
