// Finds the address of a request's client, for the log.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>
#include <string_view>

namespace nibble::server {

// Returns "192.0.2.7", or "unix" for a Unix socket. A connection from this machine may come from a proxy:
// then returns the last address of `forwarded` (the header X-Forwarded-For), if present. From other machines
// that header is not trusted.
std::string client_address(const boost::asio::generic::stream_protocol::socket& socket,
                           std::string_view forwarded);

}  // namespace nibble::server
