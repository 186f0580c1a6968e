#include "cli/bench_serve/stream_event.h"

#include <algorithm>
#include <numeric>

#include "core/text/json.h"

namespace nibble::cli {
namespace {

std::optional<int64_t> integer(const Json& object, const char* name) {
  if (!object.contains(name) || !object[name].is_number_integer()) return std::nullopt;
  return object[name].get<int64_t>();
}

bool is_text(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_string() &&
         !object[name].get_ref<const std::string&>().empty();
}

bool has_text(const Json& choice) {
  if (is_text(choice, "text")) return true;
  if (!choice.contains("delta") || !choice["delta"].is_object()) return false;
  const Json& delta = choice["delta"];
  const bool has_call =
      delta.contains("tool_calls") && delta["tool_calls"].is_array() && !delta["tool_calls"].empty();
  return has_call || is_text(delta, "content") || is_text(delta, "reasoning") ||
         is_text(delta, "reasoning_content");
}

void read_delta(const Json& delta, StreamEvent& event) {
  if (is_text(delta, "content")) event.content += delta["content"].get_ref<const std::string&>();
  // Servers use one of these names, or both with the same text.
  for (const char* name : {"reasoning_content", "reasoning"})
    if (is_text(delta, name)) {
      event.reasoning += delta[name].get_ref<const std::string&>();
      break;
    }
}

void read_choice(const Json& choice, StreamEvent& event) {
  if (!choice.is_object()) return;
  event.has_choice = true;
  event.has_text |= has_text(choice);
  if (is_text(choice, "finish_reason")) event.finish_reason = choice["finish_reason"];
  if (choice.contains("delta") && choice["delta"].is_object()) read_delta(choice["delta"], event);
  if (!choice.contains("token_ids") || !choice["token_ids"].is_array()) return;
  for (const Json& id : choice["token_ids"])
    if (id.is_number_integer()) event.tokens.push_back(id.get<int64_t>());
}

}  // namespace

StreamEvent read_event(const std::string& data) {
  StreamEvent event;
  if (data == "[DONE]") {
    event.is_done = true;
    return event;
  }
  const Json json = Json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    event.error = "an event is not a JSON object";
    return event;
  }
  if (json.contains("error") && !json["error"].is_null()) {
    event.error = message_of(data);
    if (event.error.empty()) event.error = "without a message";
    return event;
  }
  if (json.contains("choices") && json["choices"].is_array())
    for (const Json& choice : json["choices"]) read_choice(choice, event);
  if (json.contains("usage") && json["usage"].is_object()) {
    const Json& usage = json["usage"];
    event.num_prompt_tokens = integer(usage, "prompt_tokens");
    event.num_output_tokens = integer(usage, "completion_tokens");
    if (usage.contains("prompt_tokens_details") && usage["prompt_tokens_details"].is_object())
      event.num_cached_tokens = integer(usage["prompt_tokens_details"], "cached_tokens");
  }
  return event;
}

void add_event(const StreamEvent& event, double arrived, TimedAnswer& answer) {
  const int64_t num_known =
      std::max(answer.num_output_tokens.value_or(0), static_cast<int64_t>(answer.events.size()));
  const bool counts_more = event.has_choice && event.num_output_tokens.value_or(0) > num_known;
  if (!answer.first_response && !event.is_done) answer.first_response = arrived;
  if (event.has_text || counts_more) {
    answer.events.push_back(arrived);
    const int64_t num_before =
        std::accumulate(answer.event_tokens.begin(), answer.event_tokens.end(), int64_t{0});
    const int64_t num_new = event.num_output_tokens.value_or(1) - num_before;
    answer.event_tokens.push_back(event.num_output_tokens ? std::max(int64_t{0}, num_new) : 1);
  }
  if (event.num_prompt_tokens) answer.num_prompt_tokens = event.num_prompt_tokens;
  if (event.num_output_tokens) answer.num_output_tokens = event.num_output_tokens;
  if (event.num_cached_tokens) answer.num_cached_tokens = event.num_cached_tokens;
}

std::string message_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_string()) return error;
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return error["message"];
  }
  constexpr size_t kEnough{200};
  return body.substr(0, kEnough);
}

}  // namespace nibble::cli
