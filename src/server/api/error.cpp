#include "server/api/error.h"

#include <string>
#include <utility>

#include "core/text/json.h"

namespace nibble::server {

HttpError to_http_error(const InputError& error) {
  constexpr std::string_view kRoot{"request."};
  std::string_view message = error.what();
  const bool names_place = message.starts_with(kRoot);
  if (names_place) message.remove_prefix(kRoot.size());
  HttpError result(400, "{}", message);
  if (names_place || message.starts_with("messages["))
    result.param = std::string(message.substr(0, message.find(' ')));
  return result;
}

std::string_view error_type(int status) {
  constexpr std::pair<int, std::string_view> kTypes[]{
      {401, "authentication_error"}, {404, "not_found_error"},   {429, "rate_limit_error"},
      {501, "not_supported_error"},  {503, "unavailable_error"}, {504, "timeout_error"}};
  for (const auto& [known, name] : kTypes)
    if (status == known) return name;
  return status < 500 ? "invalid_request_error" : "server_error";
}

Json error_json(const HttpError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"error",
           {{"message", error.what()},
            {"type", error_type(error.status)},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

}  // namespace nibble::server
