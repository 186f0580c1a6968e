#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>
#include <string_view>

namespace nibble::server {

// The client's address for the log, "192.0.2.7" or "unix". For a connection from this machine (a proxy?), the
// last address of `forwarded`, the header X-Forwarded-For, which is not trusted from other machines.
std::string client_address(const boost::asio::generic::stream_protocol::socket& socket,
                           std::string_view forwarded);

}  // namespace nibble::server
