#include "server/http/trace_context.h"

#include <cstddef>

namespace nibble::server {
namespace {

constexpr size_t kBytes{55}, kMaxBytes{256};

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

bool is_traceparent(std::string_view text) {
  if (text.size() < kBytes || text.size() > kMaxBytes) return false;
  const std::string_view version = text.substr(0, 2), rest = text.substr(kBytes);
  if (!is_hex(version) || version == "ff" || text[2] != '-' || text[35] != '-' || text[52] != '-')
    return false;
  if (!is_id(text.substr(3, 32)) || !is_id(text.substr(36, 16)) || !is_hex(text.substr(53, 2))) return false;
  if (rest.empty()) return true;
  // Allow only characters that are safe in log lines and headers.
  return version != "00" && rest.front() == '-' &&
         rest.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
             std::string_view::npos;
}

}  // namespace nibble::server
