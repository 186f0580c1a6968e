#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>
#include <string_view>

namespace nibble::server {

// Returns the client's address for the log, "192.0.2.7" or "unix". Only connections from this machine (such
// as a proxy's) are trusted to name it: the last address of `forwarded`, the header X-Forwarded-For.
std::string client_address(const boost::asio::generic::stream_protocol::socket& socket,
                           std::string_view forwarded);

}  // namespace nibble::server
