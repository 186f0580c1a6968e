#include "core/text/remove_member.h"

#include <utility>

#include "core/text/json.h"

namespace nibble {

void remove_member(Json& object, std::string_view name) {
  auto& members = object.get_ref<OrderedJsonObject&>();
  if (object.find(name) == object.end()) return;
  OrderedJsonObject kept;
  kept.reserve(members.size() - 1);
  for (auto& [key, value] : members)
    if (key != name) kept.push_back({key, std::move(value)});
  members.swap(kept);
}

}  // namespace nibble
