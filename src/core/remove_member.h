// Removes a member of a JSON object that keeps the order of its members.
#pragma once

#include <string_view>

#include "core/json_fwd.h"

namespace nibble {

// The member may be absent. Use this instead of json's own erase(), which destroys each later member and then
// creates it again with a copy of its name: if memory for that is missing, the member is destroyed twice.
void remove_member(nlohmann::ordered_json& object, std::string_view name);

}  // namespace nibble
