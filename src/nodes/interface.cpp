#include "nodes/interface.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <memory>

namespace nibble::nodes {
namespace {

// Returns the address from which packets to `head` are sent. Connects a UDP socket to find it; sends nothing.
std::optional<asio::ip::address> address_towards(const tcp::endpoint& head) {
  asio::io_context io;
  asio::ip::udp::socket socket(io);
  error_code error;
  socket.connect({head.address(), head.port()}, error);
  const auto own = socket.local_endpoint(error);
  if (error) return std::nullopt;
  return own.address();
}

bool is_same(const sockaddr* one, const asio::ip::address& other) {
  if (!one) return false;
  if (one->sa_family == AF_INET && other.is_v4())
    return ntohl(reinterpret_cast<const sockaddr_in*>(one)->sin_addr.s_addr) == other.to_v4().to_uint();
  if (one->sa_family != AF_INET6 || !other.is_v6()) return false;
  const auto bytes = other.to_v6().to_bytes();
  return std::equal(bytes.begin(), bytes.end(),
                    reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr.s6_addr);
}

}  // namespace

std::optional<std::string> interface_to(const tcp::endpoint& head) {
  const auto own = address_towards(head);
  ifaddrs* first = nullptr;
  if (!own || getifaddrs(&first) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
  for (const ifaddrs* row = first; row; row = row->ifa_next)
    if (is_same(row->ifa_addr, *own)) return row->ifa_name;
  return std::nullopt;
}

}  // namespace nibble::nodes
