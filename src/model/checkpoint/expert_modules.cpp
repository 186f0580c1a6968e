#include "model/checkpoint/expert_modules.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble {
namespace {

struct ExpertNaming {
  // `up`: module of gate_up or of gate. `odd`: module of up; empty if `up` has it. {}: number of the expert.
  std::string_view up, odd, down;
};
constexpr ExpertNaming kExpertNamings[] = {
    {"gate_up_projs.{}", "", "down_projs.{}"},
    {"gate_up.{}", "", "down.{}"},
    {"{}.gate_proj", "{}.up_proj", "{}.down_proj"},
    {"experts.{}.gate_proj", "experts.{}.up_proj", "experts.{}.down_proj"},
    {"gate_proj", "up_proj", "down_proj"},
};
constexpr std::string_view kGateUpName{"gate_up_proj"}, kDownName{"down_proj"};

}  // namespace

std::optional<ExpertModules> find_expert_modules(const Container& container, std::string_view experts,
                                                 uint64_t count,
                                                 std::initializer_list<std::string_view> endings) {
  const bool is_down = experts.ends_with(kDownName);
  if (!is_down && !experts.ends_with(kGateUpName)) return std::nullopt;
  const std::string_view prefix =
      experts.substr(0, experts.size() - (is_down ? kDownName : kGateUpName).size());
  const auto module = [&](std::string_view pattern, uint64_t expert) {
    return fmt::format("{}{}", prefix, fmt::format(fmt::runtime(pattern), expert));
  };
  for (const ExpertNaming& naming : kExpertNamings) {
    const std::string_view pattern = is_down ? naming.down : naming.up;
    const std::string first = module(pattern, 0);
    if (std::ranges::none_of(endings, [&](auto ending) {
          return container.find(fmt::format("{}{}", first, ending)) != nullptr;
        }))
      continue;
    ExpertModules found;
    found.has_all = pattern.find("{}") == std::string_view::npos;
    for (uint64_t expert = 0; expert < (found.has_all ? 1 : count); ++expert) {
      found.rows.push_back(module(pattern, expert));
      if (!is_down && !naming.odd.empty()) found.odd_rows.push_back(module(naming.odd, expert));
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace nibble
