#include "core/text/json_text.h"

#include "core/text/json.h"

namespace nibble {
namespace {

template <typename Json>
std::string text_of(const Json& value, JsonForm form) {
  return value.dump(form == JsonForm::kIndented ? 2 : -1, ' ', form == JsonForm::kAsciiLine,
                    Json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& value, JsonForm form) { return text_of(value, form); }
std::string json_text(const nlohmann::ordered_json& value, JsonForm form) { return text_of(value, form); }

}  // namespace nibble
