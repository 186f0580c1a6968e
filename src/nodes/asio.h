// Short names for Boost.Asio, shared by the files of this folder.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace nibble::nodes {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// Completion token of an operation that a coroutine awaits. The result goes to `error`; nothing is thrown.
inline auto told(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

}  // namespace nibble::nodes
