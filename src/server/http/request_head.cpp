#include "server/http/request_head.h"

#include <algorithm>
#include <boost/asio/ip/address_v6.hpp>
#include <charconv>
#include <string>

#include "server/http/http_error.h"
#include "server/http/http_line.h"

namespace nibble::server {
namespace {

namespace http = boost::beast::http;

constexpr bool is_hex(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'f') || (letter >= 'A' && letter <= 'F');
}

bool has_whole_codes(std::string_view text) {  // whether every "%" starts a valid "%XX"
  for (size_t i = text.find('%'); i != std::string_view::npos; i = text.find('%', i + 1))
    if (i + 2 >= text.size() || !is_hex(text[i + 1]) || !is_hex(text[i + 2])) return false;
  return true;
}

// Whether `text` is a valid path. Allows characters that browsers leave unencoded although RFC 3986 forbids
// that, such as "|". Refuses characters that browsers encode.
bool is_path(std::string_view text) {
  const bool is_plain = std::ranges::all_of(text, [](char letter) {
    return letter > ' ' && letter < 0x7F &&
           std::string_view("\"#<>\\").find(letter) == std::string_view::npos;
  });
  return text.starts_with('/') && is_plain && has_whole_codes(text);
}

int read_version(std::string_view text) {
  if (text.size() != 8 || !text.starts_with("HTTP/") || !is_digit(text[5]) || text[6] != '.' ||
      !is_digit(text[7]))
    throw HttpError(400, "not an HTTP request: the first line must be 'METHOD TARGET HTTP/1.1'");
  if (text[5] != '1') throw HttpError(505, "this server supports HTTP/1.1 and HTTP/1.0, not '{}'", text);
  return text[7] == '0' ? 10 : 11;
}

// Returns "/PATH?QUERY" or "*". For "http://HOST/PATH", sets `authority` to HOST, which overrides Host.
std::string read_target(std::string_view target, std::string_view method, std::string_view& authority) {
  if (target == "*" && method == "OPTIONS") return "*";
  std::string path(target);
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equals_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const size_t end = std::min(rest.find_first_of("/?"), rest.size());
    authority = rest.substr(0, end);
    path = rest.substr(end);
    if (!path.starts_with('/')) path.insert(0, "/");
    if (!split_authority(authority))
      throw HttpError(400, "the host '{}' of the request target is not valid", authority);
  }
  if (!is_path(path))
    throw HttpError(400,
                    "the request target must be a path such as '/v1/models?a=b', or 'http://HOST/PATH'; "
                    "encode other characters as %XX");
  return path;
}

void read_request_line(std::string_view line, HttpRequest& request, std::string_view& authority) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  const std::string_view method = line.substr(0, first);
  if (first == last || !is_token(method))
    throw HttpError(400, "not an HTTP request: the first line must be 'METHOD TARGET HTTP/1.1'");
  request.version(read_version(line.substr(last + 1)));
  request.method_string(method);
  request.target(read_target(line.substr(first + 1, last - first - 1), method, authority));
}

// Calls `function` for each element of the lists in all fields called `name`. Returns the number of fields.
template <typename Function>
size_t for_each_element(const HttpRequest& request, http::field name, Function function) {
  size_t num_fields = 0;
  const auto [first, last] = request.equal_range(name);
  for (auto field = first; field != last; ++field, ++num_fields) {
    std::string_view list = to_std(field->value());
    for (size_t comma = 0; comma != std::string_view::npos; list.remove_prefix(comma + 1)) {
      comma = list.find(',');
      function(without_blanks(list.substr(0, comma)));
      if (comma == std::string_view::npos) break;
    }
  }
  return num_fields;
}

void read_host(HttpRequest& request, std::string_view authority) {
  const size_t num_hosts = request.count(http::field::host);
  if (num_hosts > 1 || (num_hosts == 0 && request.version() >= 11))
    throw HttpError(400, "a request needs exactly one header line 'Host: NAME'; this one has {}", num_hosts);
  if (num_hosts == 1 && !split_authority(to_std(request[http::field::host])))
    throw HttpError(400, "the Host '{}' is not valid: expected a name or an address, with or without a port",
                    to_std(request[http::field::host]));
  if (!authority.empty()) request.set(http::field::host, authority);
}

uint64_t read_content_length(const HttpRequest& request) {
  const std::string_view text = to_std(request[http::field::content_length]);
  if (request.count(http::field::content_length) > 1 || text.empty() || !std::ranges::all_of(text, is_digit))
    throw HttpError(400, "Content-Length must occur once and be a whole number");
  uint64_t length{};
  const bool is_huge =
      std::from_chars(text.data(), text.data() + text.size(), length).ec == std::errc::result_out_of_range;
  return is_huge ? UINT64_MAX : length;
}

// Throws HttpError unless the only transfer coding is "chunked". If "chunked" is not the last coding, the
// body has no end (RFC 9112, 6.3), and the status is 400.
void check_transfer_coding(const HttpRequest& request) {
  if (request.version() < 11)
    throw HttpError(400, "Transfer-Encoding needs HTTP/1.1; send HTTP/1.0 with Content-Length");
  if (request.count(http::field::content_length) > 0)
    throw HttpError(400, "send either Transfer-Encoding or Content-Length, not both");
  std::vector<std::string_view> codings;
  const size_t num_fields = for_each_element(request, http::field::transfer_encoding,
                                             [&](std::string_view coding) { codings.push_back(coding); });
  if (num_fields == 1 && codings.size() == 1 && equals_ignoring_case(codings.front(), "chunked")) return;
  const bool ends_in_chunks = equals_ignoring_case(codings.back(), "chunked");
  const bool are_known = std::all_of(codings.begin(), codings.end() - 1, [](std::string_view coding) {
    constexpr std::string_view kOthers[]{"gzip", "x-gzip", "deflate", "compress", "x-compress"};
    return std::ranges::any_of(kOthers,
                               [&](std::string_view other) { return equals_ignoring_case(coding, other); });
  });
  throw HttpError(ends_in_chunks && are_known ? 501 : 400,
                  "Transfer-Encoding must be 'chunked', without other codings");
}

bool wants_keep_alive(const HttpRequest& request) {
  bool closes = false, keeps = false;
  for_each_element(request, http::field::connection, [&](std::string_view option) {
    closes |= equals_ignoring_case(option, "close");
    keeps |= equals_ignoring_case(option, "keep-alive");
  });
  return !closes && (keeps || request.version() >= 11);
}

}  // namespace

std::optional<size_t> head_length(std::string_view bytes, size_t num_scanned) {
  for (size_t i = num_scanned; i < bytes.size(); ++i) {
    const bool follows_cr = i > 0 && bytes[i - 1] == '\r';
    if (bytes[i] == '\n' && follows_cr) {
      if (bytes.substr(0, i + 1).ends_with("\r\n\r\n")) return i + 1;
    } else if (follows_cr || (is_control(bytes[i]) && bytes[i] != '\r')) {
      return i + 1;
    }
  }
  return std::nullopt;
}

void read_head(std::string_view bytes, RequestHead& head) {
  const auto next_line = [&] {
    const auto line = take_line(bytes);
    if (!line) throw HttpError(400, "the request header is incomplete");
    return *line;
  };
  HttpRequest& request = head.request;
  std::string_view authority;
  read_request_line(next_line(), request, authority);
  for (std::string_view line = next_line(); !line.empty(); line = next_line()) {
    const HeaderField field = split_field(line);
    request.insert(field.name, field.value);
  }
  read_host(request, authority);
  if (request.count(http::field::transfer_encoding) > 0) {
    check_transfer_coding(request);
    head.is_chunked = true;
  } else if (request.count(http::field::content_length) > 0) {
    head.content_length = read_content_length(request);
  }
  head.keep_alive = wants_keep_alive(request);
  head.expects_continue =
      request.version() >= 11 && equals_ignoring_case(to_std(request[http::field::expect]), "100-continue");
}

std::optional<Authority> split_authority(std::string_view text) {
  size_t end = std::min(text.find(':'), text.size());
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    boost::system::error_code error;
    boost::asio::ip::make_address_v6(std::string(text.substr(1, bracket - 1)), error);
    if (error) return std::nullopt;
    end = bracket + 1;
  } else if (const std::string_view name = text.substr(0, end);
             name.empty() || !has_whole_codes(name) || !std::ranges::all_of(name, [](char letter) {
               return is_digit(letter) || (letter >= 'a' && letter <= 'z') ||
                      (letter >= 'A' && letter <= 'Z') ||
                      std::string_view("-._~%").find(letter) != std::string_view::npos;
             })) {
    return std::nullopt;
  }
  const Authority found{text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
  if (end < text.size() && text[end] != ':') return std::nullopt;
  uint16_t port{};
  const char* last = found.port.data() + found.port.size();
  const auto read = std::from_chars(found.port.data(), last, port);
  if (!found.port.empty() && (read.ec != std::errc() || read.ptr != last)) return std::nullopt;
  return found;
}

}  // namespace nibble::server
