#include "server/http/client_address.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstring>
#include <optional>

namespace nibble::server {
namespace {

namespace ip = boost::asio::ip;
using boost::system::error_code;

ip::address as_v4_if_mapped(const ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

// Returns the address of the other end; nullopt for a Unix socket or a closed connection.
std::optional<ip::address> peer_of(const boost::asio::generic::stream_protocol::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return std::nullopt;
  if (endpoint.protocol().family() == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, endpoint.data(), std::min(sizeof in, endpoint.size()));
    return ip::address_v4(ntohl(in.sin_addr.s_addr));
  }
  if (endpoint.protocol().family() == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, endpoint.data(), std::min(sizeof in, endpoint.size()));
    ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
    return as_v4_if_mapped(ip::address_v6(bytes));
  }
  return std::nullopt;
}

// Returns the last entry of X-Forwarded-For, which the nearest proxy added; nullopt if it is not an address.
std::optional<ip::address> last_address(std::string_view forwarded) {
  std::string_view entry = forwarded.substr(forwarded.rfind(',') + 1);
  const size_t begin = entry.find_first_not_of(" \t"), end = entry.find_last_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  entry = entry.substr(begin, end + 1 - begin);
  error_code error;
  const auto address = ip::make_address(std::string(entry), error);
  // Refuse zones ("fe80::1%eth0"): they may contain any characters.
  if (error || entry.find('%') != std::string_view::npos) return std::nullopt;
  return as_v4_if_mapped(address);
}

}  // namespace

std::string client_address(const boost::asio::generic::stream_protocol::socket& socket,
                           std::string_view forwarded) {
  const std::optional<ip::address> peer = peer_of(socket);
  if (!peer || peer->is_loopback())
    if (const auto client = last_address(forwarded)) return client->to_string();
  return peer ? peer->to_string() : "unix";
}

}  // namespace nibble::server
