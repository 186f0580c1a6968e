#include "cli/chat/remote_answerer.h"

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>

#include "cli/bench_serve/http_client.h"
#include "cli/bench_serve/server_facts.h"
#include "cli/bench_serve/stream_event.h"
#include "core/errors/error.h"
#include "harmony/json_text.h"

namespace nibble::cli {
namespace {

constexpr std::chrono::milliseconds kPollForCtrlC{50};
constexpr double kListSeconds{30}, kAnswerSeconds{86400};

Json messages_json(const harmony::Chat& chat) {
  Json messages = Json::array();
  if (!chat.instructions.empty()) messages.push_back({{"role", "system"}, {"content", chat.instructions}});
  for (const harmony::ChatMessage& message : chat.messages)
    messages.push_back(
        {{"role", message.role == harmony::Role::kUser ? "user" : "assistant"}, {"content", message.text}});
  return messages;
}

void add_sampling(Json& body, const Settings& settings) {
  const Settings defaults;
  const auto add = [&](const char* name, const auto& value, const auto& usual) {
    if (value != usual) body[name] = value;
  };
  add("temperature", settings.temperature, defaults.temperature);
  add("top_k", settings.top_k, defaults.top_k);
  add("top_p", settings.top_p, defaults.top_p);
  add("min_p", settings.min_p, defaults.min_p);
  add("repetition_penalty", settings.repetition_penalty, defaults.repetition_penalty);
  add("presence_penalty", settings.presence_penalty, defaults.presence_penalty);
  add("frequency_penalty", settings.frequency_penalty, defaults.frequency_penalty);
  if (settings.seed) body["seed"] = *settings.seed;
  if (settings.max_tokens) body["max_tokens"] = *settings.max_tokens;
  if (!settings.stop.empty()) body["stop"] = settings.stop;
}

// Returns the token counts that the server reported and the times that this client measured.
std::string stats_of(const TimedAnswer& times) {
  const int64_t num_output = times.num_output_tokens.value_or(static_cast<int64_t>(times.events.size()));
  std::string text = fmt::format("{} prompt tokens", times.num_prompt_tokens.value_or(0));
  if (times.events.empty()) return text;
  text += fmt::format(", first token after {:.1f} s, {} output tokens", times.events.front() - times.sent,
                      num_output);
  const double seconds = times.events.back() - times.events.front();
  if (num_output > 1 && seconds > 0)
    text += fmt::format(" at {:.1f} tok/s", static_cast<double>(num_output - 1) / seconds);
  return text;
}

}  // namespace

Json chat_request(const std::string& model, const harmony::Chat& chat, const Settings& settings) {
  if (settings.grammar) throw InputError("--grammar does not work with --server; use --json-schema");
  if (settings.reasoning_budget) throw InputError("--reasoning-budget does not work with --server");
  Json body{{"model", model},
            {"messages", messages_json(chat)},
            {"reasoning_effort", settings.reasoning},
            {"stream", true},
            {"stream_options", {{"include_usage", true}}}};
  add_sampling(body, settings);
  if (chat.response_format)
    body["response_format"] = {
        {"type", "json_schema"},
        {"json_schema",
         {{"name", chat.response_format->name},
          {"schema", harmony::parse_json(chat.response_format->schema, "the schema")}}}};
  return body;
}

RemoteAnswerer::RemoteAnswerer(const Endpoint& endpoint, const std::string& model)
    : endpoint_(endpoint), model_(model.empty() ? first_model(endpoint, kListSeconds) : model) {}

ChatAnswer RemoteAnswerer::answer(const harmony::Chat& chat, const Settings& settings,
                                  const Listener& listener) {
  const std::string body = chat_request(model_, chat, settings).dump();
  ChatAnswer answer;
  StreamedAnswer streamed;
  std::string finish_reason;
  bool has_ended = false, is_stopped = false;
  const auto hear = [&](const StreamEvent& event) {
    answer.text += event.content;
    answer.reasoning += event.reasoning;
    if (!event.finish_reason.empty()) finish_reason = event.finish_reason;
    if (!event.reasoning.empty()) listener.on_text(harmony::AnswerPart::kReasoning, event.reasoning);
    if (!event.content.empty()) listener.on_text(harmony::AnswerPart::kAnswer, event.content);
  };
  // Declared after the variables above: its destructor ends the coroutine, which uses them.
  HttpClient client(endpoint_, kAnswerSeconds);
  const auto ask_once = [&]() -> boost::asio::awaitable<void> {
    streamed = co_await client.post(endpoint_.base + "/chat/completions", body, hear);
    has_ended = true;
  };
  boost::asio::co_spawn(client.io(), ask_once(), boost::asio::detached);
  while (!has_ended && !is_stopped) {
    client.io().run_for(kPollForCtrlC);
    is_stopped = !has_ended && listener.wants_to_stop();
  }
  if (has_ended && !streamed.times.error.empty())
    throw InputError("{}: {}", endpoint_.url(),
                     HttpFailure{streamed.times.error, streamed.times.example}.text());
  answer.stats = stats_of(streamed.times);
  if (is_stopped) answer.stats = answer.cut = "(cancelled)";
  if (finish_reason == "length") answer.cut = "(cut off: max-tokens, or a limit of the server)";
  return answer;
}

}  // namespace nibble::cli
