// The address that the server listens at, and limits to what a client may take of its memory and time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nibble::server {

struct HttpAddress {
  std::string host{"127.0.0.1"};  // an address or "localhost"
  uint16_t port{8080};            // 0: any free port
  std::string unix_socket{};      // if set, the path of the only socket to listen on
};

struct HttpLimits {
  // Of further ones each takes the place of the one whose client has been silent for longest. If the server works for all, only vital
  // requests are answered.
  int max_connections{1024};
  uint32_t max_header_bytes{16 << 10};
  uint64_t max_body_bytes{8 << 20};
  // Memory of all bodies together, of which what has arrived counts until it is parsed; bodies of at most `uncounted_body_bytes` do not.
  // A full queue of prompts of 131,072 tokens, some 600 kB each, takes 160 MB.
  uint64_t max_bodies_bytes{256 << 20};
  uint64_t uncounted_body_bytes{16 << 10};
  // A connection that exceeds one of these is closed.
  std::chrono::seconds read_timeout{60};   // for a request's header, and again for its body
  std::chrono::seconds idle_timeout{75};   // between two requests
  std::chrono::seconds write_timeout{30};  // for the client to receive what was written
};

}  // namespace nibble::server
