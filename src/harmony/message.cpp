#include "harmony/message.h"

#include <iterator>

namespace nibble::harmony {

namespace {
// Names of the enumerators, in their order.
constexpr std::string_view kRoleNames[]{"system", "developer", "user", "assistant", "tool"};
constexpr std::string_view kEffortNames[]{"low", "medium", "high"};
static_assert(std::size(kRoleNames) == static_cast<size_t>(Role::kTool) + 1);
static_assert(std::size(kEffortNames) == static_cast<size_t>(ReasoningEffort::kHigh) + 1);

template <typename Enum, size_t count>
std::optional<Enum> named(const std::string_view (&names)[count], std::string_view name) {
  for (size_t i = 0; i < count; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}
}  // namespace

std::string_view name(Role role) { return kRoleNames[static_cast<size_t>(role)]; }
std::string_view name(ReasoningEffort effort) { return kEffortNames[static_cast<size_t>(effort)]; }

std::optional<Role> role_of(std::string_view name) { return named<Role>(kRoleNames, name); }
std::optional<ReasoningEffort> reasoning_effort_of(std::string_view name) {
  return named<ReasoningEffort>(kEffortNames, name);
}

}  // namespace nibble::harmony
