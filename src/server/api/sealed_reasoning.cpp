#include "server/api/sealed_reasoning.h"

#include "text/base64.h"
#include "text/utf8.h"

namespace nibble::server {
namespace {

// Marks values of this server. Other servers' values are not base64, or do not begin with it.
constexpr std::string_view kMark{"nibble reasoning 1\n"};

}  // namespace

std::string seal_reasoning(std::string_view text) { return encode_base64(std::string(kMark).append(text)); }

std::optional<std::string> open_reasoning(std::string_view sealed) {
  std::string text;
  if (!decode_base64(sealed, text) || !text.starts_with(kMark) || well_formed_prefix(text) != text.size())
    return std::nullopt;
  return text.substr(kMark.size());
}

}  // namespace nibble::server
