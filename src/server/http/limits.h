// The server's address, and limits on the memory and time that clients can take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nibble::server {

struct HttpAddress {
  std::string host{"127.0.0.1"};  // an address or "localhost"
  uint16_t port{8080};            // 0: any free port
  std::string unix_socket{};      // path of a Unix socket; if set, the server listens only there
};

struct HttpLimits {
  // If all connections are in use, a new connection evicts the one whose client has been silent longest. If
  // no client is silent, the new connection gets answers only to requests for health and metrics.
  int max_connections{1024};
  uint32_t max_header_bytes{16 << 10};
  uint64_t max_body_bytes{8 << 20};
  // Limit on the memory of all request bodies together. A body counts until it is parsed; for /v1/responses,
  // the parsed data counts instead until the answer ends. Bodies of up to `uncounted_body_bytes` don't count.
  // A full queue of prompts of 131,072 tokens, about 600 kB each, takes 160 MB.
  uint64_t max_bodies_bytes{256 << 20};
  uint64_t uncounted_body_bytes{16 << 10};
  // A connection is closed if one of these times passes.
  std::chrono::seconds read_timeout{60};   // time to receive a request's header; counted anew for its body
  std::chrono::seconds idle_timeout{75};   // time from an answer to the next request
  std::chrono::seconds write_timeout{30};  // time for the client to receive a write
};

}  // namespace nibble::server
