#include "server/api/reasoning_params.h"

#include <fmt/format.h>

#include <climits>
#include <utility>
#include <vector>

#include "core/text/json.h"

namespace nibble::server {
namespace {

using harmony::ReasoningEffort;

// Returns the field request[object][key], or request[key] if `object` is null.
std::optional<Field> find_in(const Field& request, const char* object, const char* key) {
  if (!object) return request.find(key);
  const auto outer = request.find(object);
  return outer ? outer->find(key) : std::nullopt;
}

// Reads the limit on reasoning tokens. The request may set it under several names if all values agree.
void read_limit(const Field& request, GenerationParams& params) {
  constexpr std::pair<const char*, const char*> kLimits[] = {{nullptr, "thinking_token_budget"},
                                                             {nullptr, "reasoning_budget"},
                                                             {nullptr, "thinking_budget"},
                                                             {"reasoning", "max_tokens"}};
  std::vector<Field> said;
  for (const auto& [object, key] : kLimits)
    if (const auto field = find_in(request, object, key)) said.push_back(*field);
  const auto thinking = request.find("thinking");
  if (thinking && thinking->value().is_object() && thinking->find_string("type") == "enabled")
    if (const auto field = thinking->find("budget_tokens")) said.push_back(*field);
  for (const Field& field : said) {
    if (field.value() != said.front().value())
      field.refuse(fmt::format("equal to {}, or absent", said.front().place()));
    params.max_reasoning_tokens = read_reasoning_budget(field);
  }
}

bool is_off(const Field& field) {  // whether the value turns reasoning off
  if (!field.value().is_object()) return !field.boolean();
  const Field type = field.need("type", "enabled, adaptive or disabled");
  const std::string name = type.string();
  if (name != "enabled" && name != "adaptive" && name != "disabled")
    type.refuse("enabled, adaptive or disabled");
  return name == "disabled";
}

}  // namespace

void read_reasoning(const Field& request, harmony::Chat& chat, GenerationParams& params) {
  constexpr std::pair<const char*, const char*> kEfforts[] = {
      {"chat_template_kwargs", "reasoning_effort"}, {"reasoning", "effort"}, {nullptr, "reasoning_effort"}};
  constexpr std::pair<const char*, const char*> kSwitches[] = {{"chat_template_kwargs", "enable_thinking"},
                                                               {"chat_template_kwargs", "thinking"},
                                                               {"reasoning", "enabled"},
                                                               {nullptr, "enable_thinking"},
                                                               {nullptr, "thinking"},
                                                               {nullptr, "think"}};
  for (const auto& [object, key] : kEfforts)
    if (const auto effort = find_in(request, object, key))
      chat.reasoning_effort = read_effort(*effort, params.ignored);
  read_limit(request, params);
  for (const auto& [object, key] : kSwitches) {
    const auto field = find_in(request, object, key);
    if (!field) continue;
    if (field->value().is_string() && std::string_view(key) == "think")  // Ollama's `think` may be a level
      chat.reasoning_effort = read_effort(*field, params.ignored);
    else if (is_off(*field))
      turn_off_reasoning(*field, chat, params.ignored);
  }
}

ReasoningEffort read_effort(const Field& field, IgnoredFields& ignored) {
  constexpr struct {
    std::string_view name, instead;
  } kOthers[] = {{"none", "low"}, {"minimal", "low"}, {"xhigh", "high"}, {"max", "high"}};
  std::string level = field.string();
  for (const auto& other : kOthers) {
    if (level != other.name) continue;
    ignored.add(harmony::name_of_place(field.place()), other.instead);
    level = other.instead;
  }
  const auto known = harmony::reasoning_effort_of(level);
  if (!known) field.refuse("low, medium or high");
  return *known;
}

void turn_off_reasoning(const Field& field, harmony::Chat& chat, IgnoredFields& ignored) {
  chat.reasoning_effort = ReasoningEffort::kLow;
  ignored.add(harmony::name_of_place(field.place()), "low");
}

std::optional<int> read_reasoning_budget(const Field& field) {
  const auto most = static_cast<int>(read_whole_number(field, -1, INT_MAX));
  return most < 0 ? std::nullopt : std::optional(most);
}

}  // namespace nibble::server
