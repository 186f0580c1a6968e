// HTTP/1.1 on one thread, over TCP or a Unix socket: binds an address and accepts connections within the limits. It knows no
// endpoint: a handler answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

class HttpServer {
 public:
  // Binds the address, or throws InputError. Pages of `cors_origins` ("*": all) may call from a browser.
  HttpServer(boost::asio::io_context& io, const HttpAddress& address, const HttpLimits& limits,
             std::vector<std::string> cors_origins, HttpHandler& handler);
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
