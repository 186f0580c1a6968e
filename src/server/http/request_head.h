// Parses a request's header (RFC 9112). Refuses headers that a proxy could parse differently, because the
// length and end of each request must be unambiguous (request smuggling).
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
  HttpRequest request{};  // has no body; the target is "/PATH?QUERY" or "*"
  uint64_t content_length{0};
  bool is_chunked{false};
  bool keep_alive{false};
  bool expects_continue{false};  // the client waits for "100 Continue" before it sends the body

  bool has_body() const { return is_chunked || content_length > 0; }
};

// Returns the length of the header with its empty line; nullopt if it is incomplete. Returns early at a byte
// that no header may contain, so that read_head() refuses it. `num_scanned`: bytes scanned by earlier calls.
std::optional<size_t> head_length(std::string_view bytes, size_t num_scanned);

// Parses a header into `head`. On HttpError (400, 501, 505), `head` has the parts that were parsed before.
void read_head(std::string_view bytes, RequestHead& head);

// Host and port, as in the header Host or in an origin. split_authority() reads "NAME", "NAME:PORT", "[IPV6]"
// and "[IPV6]:PORT", and returns nullopt for anything else.
struct Authority {
  std::string_view host;  // with the brackets of an IPv6 address
  std::string_view port;  // may be empty
};
std::optional<Authority> split_authority(std::string_view text);

}  // namespace nibble::server
