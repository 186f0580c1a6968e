// Short names for Boost.Asio.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace nibble::nodes {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// Returns a completion token for co_await that stores an operation's error in `error` instead of throwing it.
inline auto told(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

}  // namespace nibble::nodes
