// HTTP/1.1 on one thread, over TCP or a Unix socket: binds an address and accepts connections within the limits. It knows no
// endpoint: a handler answers.
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

// Throws InputError, as HttpServer does, if the address can't be one to listen on. Whether it is free is not tried.
void check_address(const HttpAddress& address);
// "http://127.0.0.1:8080", or "unix:PATH".
std::string address_text(const HttpAddress& address, uint16_t port);
// Whether only programs of this machine reach the address, as on a Unix socket. Throws InputError if it is no address.
bool is_local(const HttpAddress& address);

class HttpServer {
 public:
  // Binds the address, or throws InputError.
  HttpServer(boost::asio::io_context& io, const HttpAddress& address, const HttpLimits& limits,
             AccessRules access, HttpHandler& handler);
  ~HttpServer();

  uint16_t port() const;  // 0 on a Unix socket
  void start();           // starts to accept connections
  void drain();           // connections close after their next answer
  bool is_idle() const;   // every answer is complete
  uint64_t num_body_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
