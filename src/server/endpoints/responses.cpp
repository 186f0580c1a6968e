// POST /v1/responses
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "server/api/response_items.h"
#include "server/api/response_request.h"
#include "server/endpoints/endpoints.h"
#include "server/http/http_error.h"
#include "server/service/prompt.h"

namespace nibble::server {
namespace {

using harmony::ChatMessage;

Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.num_prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.num_cached_tokens}}},
          {"output_tokens", usage.num_output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.num_reasoning_tokens}}},
          {"total_tokens", usage.num_prompt_tokens + usage.num_output_tokens}};
}

// Builds the response and the events of its stream. The first two events are sent with the first token, as in a chat.
class ResponseBuilder : public ChoiceListener {
 public:
  ResponseBuilder(const ReplyHead& head, const Tokenizer& tokenizer, const ResponseRequest& request)
      : answer_(tokenizer, request.chat.tools, request.params.stop),
        items_(tokenizer, request.params.sample.num_logprobs >= 0),
        is_stream_(request.params.stream) {
    const auto sent = [&](const char* key, Json otherwise) { return request.body.value(key, otherwise); };
    const SampleParams& sample = request.params.sample;
    whole_ = {{"id", head.id},
              {"object", "response"},
              {"created_at", head.created},
              {"status", "in_progress"},
              {"background", false},
              {"error", nullptr},
              {"incomplete_details", nullptr},
              {"instructions", sent("instructions", nullptr)},
              {"max_output_tokens", request.params.max_tokens ? Json(*request.params.max_tokens) : Json()},
              {"model", head.model},
              {"output", Json::array()},
              {"parallel_tool_calls", true},
              {"previous_response_id", request.previous_id ? Json(*request.previous_id) : Json()},
              {"reasoning", {{"effort", name(request.chat.reasoning_effort)}, {"summary", nullptr}}},
              {"store", request.store},
              {"temperature", sample.temperature},
              {"text", {{"format", {{"type", "text"}}}}},
              {"tool_choice", sent("tool_choice", "auto")},
              {"tools", sent("tools", Json::array())},
              {"top_p", sample.top_p},
              {"truncation", "disabled"},
              {"usage", nullptr},
              {"metadata", sent("metadata", Json::object())}};
  }

  std::string on_token(size_t, TokenEvent& event) override {
    return events_of(items_.push(answer_.push(event.token)));
  }
  bool has_enough(size_t) const override { return answer_.has_stopped(); }
  std::string on_end(size_t, FinishReason reason, const std::string&) override {
    std::string events = events_of(items_.push(answer_.finish()));
    const bool is_complete = answer_.has_stopped() || finish_reason(reason, false) == "stop";
    events += events_of(items_.finish(is_complete));
    whole_["status"] = is_complete ? "completed" : "incomplete";
    if (!is_complete) whole_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    return events;
  }

  // Returns the last event; after it whole() is complete.
  std::string close(Usage usage) {
    usage.num_reasoning_tokens = answer_.num_reasoning_tokens();
    whole_["usage"] = usage_json(usage);
    whole_["output"] = items_.items();
    return events_of({{{"type", "response." + whole_["status"].get<std::string>()}, {"response", whole_}}});
  }
  std::string fail(const HttpError& error) {
    const std::string events = events_of(items_.finish(false));
    whole_["status"] = "failed";
    whole_["error"] = {{"code", "server_error"}, {"message", error.what()}};
    whole_["output"] = items_.items();
    return events + events_of({{{"type", "response.failed"}, {"response", whole_}}});
  }
  const Json& whole() const { return whole_; }

 private:
  std::string events_of(const std::vector<Json>& events) {
    std::string text;
    if (!is_stream_) return text;
    if (num_events_ == 0)
      for (const char* type : {"response.created", "response.in_progress"})
        text += print_event({{"type", type}, {"response", whole_}});
    for (const Json& event : events) text += print_event(event);
    return text;
  }
  std::string print_event(Json event) {
    event["sequence_number"] = num_events_++;
    return "event: " + event["type"].get<std::string>() + "\n" + sse_event(event);
  }

  ChatAnswer answer_;
  ResponseItems items_;
  bool is_stream_;
  Json whole_;
  int num_events_{0};
};

// Puts the stored conversation of previous_response_id before the input.
void load_previous_response(Service& service, Exchange& exchange, ResponseRequest& request) {
  if (!request.previous_id) return;
  const std::vector<ChatMessage>* before = service.responses.find(*request.previous_id);
  if (!before) {
    HttpError error(
        400,
        "Previous response with id '{}' not found: it was never stored, or its place went to newer ones. "
        "Send its conversation as input.",
        *request.previous_id);
    error.param = "previous_response_id";
    error.code = "previous_response_not_found";
    throw error;
  }
  exchange.reserve_more(bytes_of(*before));
  std::vector<ChatMessage>& messages = request.chat.messages;
  messages.insert(messages.begin(), before->begin(), before->end());
}

// Checks that every result has its call; the error uses this API's names, which harmony/chat.h does not know.
void check_results_have_calls(const std::vector<ChatMessage>& messages) {
  std::vector<std::string> open_calls;
  for (const ChatMessage& message : messages) {
    for (const harmony::ToolCall& call : message.tool_calls) open_calls.push_back(call.id);
    if (!message.tool_call_id) continue;
    const auto found = std::find(open_calls.begin(), open_calls.end(), *message.tool_call_id);
    if (found == open_calls.end()) {
      HttpError error(400,
                      "input has a function_call_output with call_id '{}', but no function_call before it "
                      "waits for one: put the call first, or name the response that made it in "
                      "previous_response_id",
                      *message.tool_call_id);
      error.param = "input";
      throw error;
    }
    open_calls.erase(found);
  }
}

}  // namespace

asio::awaitable<void> responses(Service& service, Exchange& exchange) {
  ResponseRequest request;
  std::vector<GenerationRequest> prompts;
  co_await offload_if_long(service, exchange, [&] { request = read_response_request(exchange.body()); });
  const GenerationParams& params = request.params;
  check_model(service, params);
  const Tokenizer& tokenizer = *service.model->tokenizer;
  load_previous_response(service, exchange, request);
  check_results_have_calls(request.chat.messages);
  co_await offload_if_long(service, exchange, [&] {
    prompts.push_back(make_generation_request(
        service, params, chat_prompt(service, {.params = {}, .chat = request.chat}).tokens));
  });
  note_ignored(service, exchange, params.ignored);
  // The body is not dropped from the budget: the answer repeats parts of it, and the store takes its conversation.
  Usage usage{.num_prompt_tokens = static_cast<int>(prompts.front().prompt.size())};

  const ReplyHead head = new_reply(service, "resp_");
  ResponseBuilder response(head, tokenizer, request);
  std::optional<TokenCounts> counts;
  std::optional<HttpError> failure;
  try {
    counts = co_await generate(service, exchange, std::move(prompts), params, response);
    if (!counts) co_return;
  } catch (const HttpError& error) {
    if (exchange.status() == 0) throw;  // nothing was sent: an ordinary error
    failure = error;
  }
  if (failure) {
    co_await exchange.write_events(response.fail(*failure));
    co_await exchange.end_events(failure->status);
    co_return;
  }
  usage.num_output_tokens = counts->num_output;
  usage.num_cached_tokens = counts->num_cached;
  std::string last = response.close(usage);
  if (request.store) {
    std::vector<ChatMessage>& messages = request.chat.messages;
    for (ChatMessage& message : read_items(harmony::Field(response.whole()["output"], "output")))
      messages.push_back(std::move(message));
    service.responses.put(head.id, std::move(messages));
  }
  if (!params.stream) {
    co_await reply_json(exchange, 200, response.whole());
    co_return;
  }
  co_await exchange.write_events(std::move(last));
  co_await exchange.end_events(200);
}

}  // namespace nibble::server
