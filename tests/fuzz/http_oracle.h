// A second reader of HTTP, with which http_fuzz.cpp compares the server. It finds the requests in all bytes
// of a connection at once, as strictly as RFC 9112 allows, and shares no code with the server. A server that
// finds other requests in the same bytes could be made to smuggle them past a proxy.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble::test {

struct FoundRequest {
  std::string method, path, query, body;
  bool has_body{false};
  bool is_let_in{true};  // whether its Host and Origin are allowed
};

enum class Rest {
  kNothing,     // all bytes belong to requests, or follow a request that closes the connection
  kIncomplete,  // more bytes could turn the rest into a request
  kInvalid,     // the rest must be refused
};

struct FoundRequests {
  std::vector<FoundRequest> requests;
  Rest rest{Rest::kNothing};
};

class HttpOracle {
 public:
  HttpOracle(size_t max_head, size_t max_body, std::vector<std::string> hosts)
      : max_head_(max_head), max_body_(max_body), hosts_(std::move(hosts)) {}

  FoundRequests read(std::string_view bytes) const {
    FoundRequests found;
    for (;;) {
      while (bytes.substr(0, 2) == "\r\n") bytes.remove_prefix(2);
      if (bytes.empty()) return found;
      const size_t end = bytes.find("\r\n\r\n");
      found.rest = Rest::kIncomplete;
      if (end == std::string_view::npos) return found;
      found.rest = Rest::kInvalid;
      if (end + 4 > max_head_) return found;
      const std::optional<Head> head = read_head(bytes.substr(0, end));
      if (!head) return found;
      bytes.remove_prefix(end + 4);
      FoundRequest request = head->request;
      if (head->is_chunked) {
        found.rest = read_chunks(bytes, request.body);
        if (found.rest != Rest::kNothing) return found;
      } else {
        if (head->length > max_body_) return found;
        found.rest = Rest::kIncomplete;
        if (bytes.size() < head->length) return found;
        request.body = bytes.substr(0, head->length);
        bytes.remove_prefix(head->length);
      }
      found.rest = Rest::kNothing;
      found.requests.push_back(std::move(request));
      if (head->closes) return found;
    }
  }

 private:
  struct Head {
    FoundRequest request;
    size_t length{0};
    bool is_chunked{false}, closes{false};
  };
  using Fields = std::vector<std::pair<std::string, std::string>>;  // names in lower case

  static std::string small(std::string_view text) {
    std::string out(text);
    for (char& letter : out)
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return out;
  }
  static bool has_only(std::string_view text, std::string_view letters) {
    return !text.empty() && text.find_first_not_of(letters) == std::string_view::npos;
  }
  static bool is_name(std::string_view text) {
    return has_only(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  }
  static bool has_control(std::string_view text) {
    for (const char letter : text)
      if (letter != '\t' && std::iscntrl(static_cast<unsigned char>(letter))) return true;
    return false;
  }
  static std::string trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return std::string(text);
  }
  static std::vector<std::string> split(std::string_view text, std::string_view separator) {
    std::vector<std::string> parts;
    for (size_t at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
    parts.emplace_back(text);
    return parts;
  }
  static std::vector<std::string> values(const Fields& fields, std::string_view name) {
    std::vector<std::string> found;
    for (const auto& [known, value] : fields)
      if (known == name) found.push_back(value);
    return found;
  }

  // Splits NAME or NAME:PORT into its two parts.
  static std::optional<std::pair<std::string, std::string>> host_and_port(std::string_view text) {
    size_t length = text.find(':');
    if (text.substr(0, 1) == "[") {
      length = text.find(']') + 1;
      in6_addr address{};
      if (length == 0 || inet_pton(AF_INET6, std::string(text.substr(1, length - 2)).c_str(), &address) != 1)
        return std::nullopt;
    } else {
      if (!has_only(text.substr(0, length),
                    "-._~%0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") ||
          !has_hex_after_percent(text.substr(0, length)))
        return std::nullopt;
    }
    const std::string host(text.substr(0, length));
    if (host.size() == text.size()) return std::pair(host, std::string());
    const std::string port(text.substr(host.size() + 1));
    if (text[host.size()] != ':' || (!port.empty() && !has_only(port, "0123456789"))) return std::nullopt;
    const std::string significant = port.substr(std::min(port.find_first_not_of('0'), port.size()));
    if (significant.size() > 5 || std::atoi(significant.c_str()) > 65535) return std::nullopt;
    return std::pair(host, port);
  }
  static bool has_hex_after_percent(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == '%' &&
          (i + 2 >= text.size() || !has_only(text.substr(i + 1, 2), "0123456789abcdefABCDEF")))
        return false;
    return true;
  }

  std::optional<Head> read_head(std::string_view text) const {
    std::vector<std::string> lines = split(text, "\r\n");
    for (const std::string& line : lines)
      if (has_control(line)) return std::nullopt;
    const std::vector<std::string> words = split(lines.front(), " ");
    if (words.size() != 3 || !is_name(words[0])) return std::nullopt;
    const std::string& version = words[2];
    if (version.size() != 8 || version.substr(0, 7) != "HTTP/1." || !std::isdigit(version[7]))
      return std::nullopt;
    const bool is_old = version[7] == '0';
    Fields fields;
    for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
      const size_t colon = line->find(':');
      if (colon == std::string::npos || !is_name(line->substr(0, colon))) return std::nullopt;
      fields.emplace_back(small(line->substr(0, colon)), trimmed(line->substr(colon + 1)));
    }
    Head head;
    head.request.method = words[0];
    std::vector<std::string> hosts = values(fields, "host");
    if (hosts.size() > 1 || (hosts.empty() && !is_old)) return std::nullopt;
    for (const std::string& host : hosts)
      if (!host_and_port(host)) return std::nullopt;
    if (!read_target(words[1], head.request, hosts)) return std::nullopt;
    if (!read_length(fields, is_old, head)) return std::nullopt;
    head.request.is_let_in = is_let_in(hosts, values(fields, "origin"));
    bool closes = false, keeps = !is_old;
    for (const std::string& list : values(fields, "connection"))
      for (const std::string& option : split(list, ",")) {
        closes |= small(trimmed(option)) == "close";
        keeps |= small(trimmed(option)) == "keep-alive";
      }
    head.closes = closes || !keeps;
    return head;
  }

  static bool read_target(std::string target, FoundRequest& request, std::vector<std::string>& hosts) {
    if (target == "*" && request.method == "OPTIONS") {
      request.path = target;
      return true;
    }
    const std::string scheme = small(target.substr(0, target.find("://")));
    if (scheme == "http" || scheme == "https") {
      target.erase(0, scheme.size() + 3);
      const std::string host = target.substr(0, target.find_first_of("/?"));
      if (!host_and_port(host)) return false;
      hosts = {host};
      target.erase(0, host.size());
      if (target.empty() || target[0] == '?') target = "/" + target;
    }
    if (target.empty() || target[0] != '/' || !has_hex_after_percent(target)) return false;
    for (const char letter : target)
      if (!std::isgraph(static_cast<unsigned char>(letter)) ||
          std::string_view("\"<>#\\").find(letter) != std::string_view::npos)
        return false;
    const size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != std::string::npos) request.query = target.substr(mark + 1);
    return true;
  }

  bool read_length(const Fields& fields, bool is_old, Head& head) const {
    const std::vector<std::string> lengths = values(fields, "content-length");
    const std::vector<std::string> codings = values(fields, "transfer-encoding");
    if (codings.empty() && lengths.empty()) return true;
    head.request.has_body = true;
    if (!codings.empty()) {
      head.is_chunked = true;
      return codings.size() == 1 && small(codings[0]) == "chunked" && lengths.empty() && !is_old;
    }
    if (lengths.size() != 1 || !has_only(lengths[0], "0123456789")) return false;
    const std::string digits =
        lengths[0].substr(std::min(lengths[0].find_first_not_of('0'), lengths[0].size()));
    head.length = digits.size() > 9 ? max_body_ + 1 : static_cast<size_t>(std::atoi(digits.c_str()));
    head.request.has_body = head.length > 0;
    return true;
  }

  bool is_let_in(const std::vector<std::string>& hosts, const std::vector<std::string>& origins) const {
    const auto asked = hosts.empty() ? std::nullopt : host_and_port(hosts.front());
    if (asked && std::find(hosts_.begin(), hosts_.end(), small(asked->first)) == hosts_.end()) return false;
    for (const std::string& origin : origins) {
      const size_t colon = origin.find("://");
      if (colon == std::string::npos || !asked) return false;
      const std::string scheme = origin.substr(0, colon), port = scheme == "https" ? "443" : "80";
      const auto page = host_and_port(origin.substr(colon + 3));
      if ((scheme != "http" && scheme != "https") || !page || small(page->first) != small(asked->first) ||
          (page->second.empty() ? port : page->second) != (asked->second.empty() ? port : asked->second))
        return false;
    }
    return true;
  }

  // Removes a chunked body from the start of `bytes`.
  Rest read_chunks(std::string_view& bytes, std::string& body) const {
    for (size_t num_others = 0;;) {
      const std::optional<std::string> line = take_line(bytes);
      if (!line) return Rest::kIncomplete;
      const std::string digits = line->substr(0, line->find_first_not_of("0123456789abcdefABCDEF"));
      const std::string_view extensions = std::string_view(*line).substr(digits.size());
      if (digits.empty() || digits.size() > 16 || has_control(*line) || !are_extensions(extensions) ||
          num_others + line->size() > max_head_)
        return Rest::kInvalid;
      num_others += extensions.size();
      const unsigned long long size = std::strtoull(digits.c_str(), nullptr, 16);
      if (size == 0) return read_trailers(bytes, num_others);
      if (size > max_body_ - body.size()) return Rest::kInvalid;
      if (bytes.size() < size + 2) return Rest::kIncomplete;
      body += bytes.substr(0, size);
      if (bytes.substr(size, 2) != "\r\n") return Rest::kInvalid;
      bytes.remove_prefix(size + 2);
    }
  }
  Rest read_trailers(std::string_view& bytes, size_t num_others) const {
    for (;;) {
      const std::optional<std::string> line = take_line(bytes);
      if (!line) return Rest::kIncomplete;
      if (line->empty()) return Rest::kNothing;
      if (num_others + line->size() > max_head_ || has_control(*line) ||
          line->find(':') == std::string::npos || !is_name(line->substr(0, line->find(':'))))
        return Rest::kInvalid;
      num_others += line->size();
    }
  }
  static std::optional<std::string> take_line(std::string_view& bytes) {
    const size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    std::string line(bytes.substr(0, end));
    bytes.remove_prefix(end + 2);
    return line;
  }
  // Each part after a ';' is a name, optionally with a value, which is a token or a quoted string. A ';' in
  // quotes does not end a part.
  static bool are_extensions(std::string_view text) {
    if (text.empty()) return true;
    if (trimmed(text).substr(0, 1) != ";" || text.back() == ' ' || text.back() == '\t') return false;
    std::vector<std::string> parts(1);
    bool is_quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (is_quoted && text[i] == '\\') {
        parts.back() += text[i++];
        if (i == text.size()) return false;
      } else if (text[i] == '"') {
        is_quoted = !is_quoted;
      } else if (text[i] == ';' && !is_quoted) {
        parts.emplace_back();
        continue;
      }
      parts.back() += text[i];
    }
    if (is_quoted || !trimmed(parts.front()).empty()) return false;
    for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
      const size_t equals = part->find('=');
      if (!is_name(trimmed(part->substr(0, equals)))) return false;
      if (equals == std::string::npos) continue;
      const std::string value = trimmed(part->substr(equals + 1));
      if (!is_name(value) && !is_in_quotes(value)) return false;
    }
    return true;
  }
  static bool is_in_quotes(const std::string& value) {
    if (value.size() < 2 || value.front() != '"') return false;
    size_t i = 1;
    for (; i < value.size() && value[i] != '"'; ++i)
      if (value[i] == '\\') ++i;
    return i + 1 == value.size();
  }

  size_t max_head_, max_body_;
  std::vector<std::string> hosts_;  // in lower case
};

}  // namespace nibble::test
