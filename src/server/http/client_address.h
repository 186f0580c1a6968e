#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>
#include <string_view>

namespace nibble::server {

// Returns the client's address for the log: "192.0.2.7" or "unix". For a connection from this machine (a
// proxy), returns the last address in `forwarded`, the header X-Forwarded-For, instead.
std::string client_address(const boost::asio::generic::stream_protocol::socket& socket,
                           std::string_view forwarded);

}  // namespace nibble::server
