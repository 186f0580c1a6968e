// Removes a member, if present, of a JSON object that keeps the order of its members. Replaces json's
// erase(), which copies the names of all later members and destroys a member twice if memory runs out.
#pragma once

#include <string_view>

#include "core/text/json_fwd.h"

namespace nibble {

void remove_member(Json& object, std::string_view name);

}  // namespace nibble
