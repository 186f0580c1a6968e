// Removes a member, if present, of a JSON object that keeps the order of its members. json's own erase()
// copies the names of all later members: if memory runs out, it destroys a member twice.
#pragma once

#include <string_view>

#include "core/json_fwd.h"

namespace nibble {

void remove_member(nlohmann::ordered_json& object, std::string_view name);

}  // namespace nibble
