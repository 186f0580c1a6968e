// Reads the header of a request, by RFC 9112. It refuses whatever a proxy could take for other requests than the server does (request
// smuggling): length and end of each request must be beyond doubt.
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
  HttpRequest request{};  // without its body. The target is "/PATH?QUERY", or "*"
  uint64_t content_length{0};
  bool is_chunked{false};
  bool keep_alive{false};
  bool expects_continue{false};  // waits for "100 Continue" before it sends the body

  bool has_body() const { return is_chunked || content_length > 0; }
};

// The length of the header that `bytes` begin with, its empty line included; nothing if its end has not arrived. It ends early at a
// byte that no header may have, so that read_head() refuses it at once. The first `num_scanned` bytes were passed before.
std::optional<size_t> head_length(std::string_view bytes, size_t num_scanned);

// Throws HttpError (400, 501, 505); then `head` has what was read up to there.
void read_head(std::string_view bytes, RequestHead& head);

// "NAME", "NAME:PORT", "[IPV6]" or "[IPV6]:PORT", as in the field Host. Nothing if it is none of these.
struct Authority {
  std::string_view host;  // with the brackets
  std::string_view port;  // may be empty
};
std::optional<Authority> split_authority(std::string_view text);

}  // namespace nibble::server
