// The address of a request's client, for the log.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>
#include <string_view>

namespace nibble::server {

// "192.0.2.7"; "unix" on a Unix socket. If the connection comes from this machine, a proxy may have made it: then the address is the last
// one in `forwarded`, the header X-Forwarded-For, if there is one. From elsewhere that header is not believed.
std::string client_address(const boost::asio::generic::stream_protocol::socket& socket,
                           std::string_view forwarded);

}  // namespace nibble::server
