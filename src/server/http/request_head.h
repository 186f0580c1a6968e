// Parses the header of a request (RFC 9112). Refuses whatever a proxy could parse as other requests than the
// server does (request smuggling): the length and end of each request must be unambiguous.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble::server {

using HttpRequest = boost::beast::http::request<boost::beast::http::string_body>;

inline std::string_view to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

struct RequestHead {
  HttpRequest request{};  // body empty; target "/PATH?QUERY" or "*"
  uint64_t content_length{0};
  bool is_chunked{false};
  bool keep_alive{false};
  bool expects_continue{false};  // the client waits for "100 Continue" before it sends the body

  bool has_body() const { return is_chunked || content_length > 0; }
};

// Returns the length of the header at the start of `bytes`, with its final empty line; nullopt if its end has
// not arrived. Stops early at a byte that no header may contain, so that read_head() refuses it immediately.
// `num_scanned`: how many bytes earlier calls have scanned.
std::optional<size_t> head_length(std::string_view bytes, size_t num_scanned);

// Parses a header. Throws HttpError (400, 501, 505); `head` then holds the part parsed before the error.
void read_head(std::string_view bytes, RequestHead& head);

// Splits "NAME", "NAME:PORT", "[IPV6]" or "[IPV6]:PORT", as in the Host header; nullopt for anything else.
struct Authority {
  std::string_view host;  // with the brackets of an IPv6 address
  std::string_view port;  // may be empty
};
std::optional<Authority> split_authority(std::string_view text);

}  // namespace nibble::server
