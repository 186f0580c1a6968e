#include "server/api/response_object.h"

#include <ctime>
#include <utility>

namespace nibble::server {
namespace {

Json response_usage(const Usage& usage) {
  return {{"input_tokens", usage.num_prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.num_cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.num_output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.num_reasoning_tokens}}},
          {"total_tokens", usage.num_prompt_tokens + usage.num_output_tokens}};
}

// Returns the error code of the Responses API. Codex reacts to the code context_length_exceeded.
std::string code_of(const HttpError& error) {
  if (!error.code.empty()) return error.code;
  switch (error.status) {
    case 429:
      return "rate_limit_exceeded";
    case 503:
      return "server_is_overloaded";
    default:
      return error.status < 500 ? "invalid_prompt" : "server_error";
  }
}

}  // namespace

ResponseObject::ResponseObject(const ReplyHead& head, const Tokenizer& tokenizer,
                               const ResponseRequest& request)
    : items_(tokenizer, request.params.sample.num_logprobs >= 0, request.seals_reasoning),
      is_stream_(request.params.stream) {
  const auto sent = [&](const char* key, Json otherwise) {
    const auto found = request.body.find(key);
    return found == request.body.end() || found->is_null() ? otherwise : *found;
  };
  const SampleParams& sample = request.params.sample;
  Json text = sent("text", Json::object());
  if (!text.contains("format") || text["format"].is_null()) text["format"] = {{"type", "text"}};
  if (!text.contains("verbosity") || text["verbosity"].is_null()) text["verbosity"] = "medium";
  whole_ = {{"id", head.id},
            {"object", "response"},
            {"created_at", head.created},
            {"status", "in_progress"},
            {"background", request.is_background},
            {"completed_at", nullptr},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"instructions", sent("instructions", nullptr)},
            {"max_output_tokens", request.params.max_tokens ? Json(*request.params.max_tokens) : Json()},
            {"max_tool_calls", sent("max_tool_calls", nullptr)},
            {"model", head.model},
            {"output", Json::array()},
            {"parallel_tool_calls", sent("parallel_tool_calls", true)},
            {"previous_response_id", request.previous_id ? Json(*request.previous_id) : Json()},
            {"prompt", nullptr},
            {"prompt_cache_key", sent("prompt_cache_key", nullptr)},
            {"prompt_cache_retention", sent("prompt_cache_retention", nullptr)},
            {"reasoning", {{"effort", name(request.chat.reasoning_effort)}, {"summary", nullptr}}},
            {"safety_identifier", sent("safety_identifier", nullptr)},
            {"service_tier", "default"},
            {"store", request.store},
            {"temperature", decimal(sample.temperature)},
            {"text", std::move(text)},
            {"tool_choice", sent("tool_choice", "auto")},
            {"tools", sent("tools", Json::array())},
            {"top_logprobs", std::max(0, sample.num_logprobs)},
            {"top_p", decimal(sample.top_p)},
            {"truncation", request.may_truncate ? "auto" : "disabled"},
            {"usage", nullptr},
            {"user", sent("user", nullptr)},
            {"metadata", sent("metadata", Json::object())}};
}

std::string ResponseObject::push(const std::vector<AnswerDelta>& deltas) {
  return events_of(items_.push(deltas));
}

std::string ResponseObject::end(const std::vector<AnswerDelta>& deltas, bool is_complete) {
  std::string events = events_of(items_.push(deltas));
  events += events_of(items_.finish(is_complete));
  whole_["status"] = is_complete ? "completed" : "incomplete";
  if (!is_complete) whole_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  return events;
}

std::string ResponseObject::close(const Usage& usage) {
  whole_["completed_at"] = whole_["status"] == "completed" ? Json(std::time(nullptr)) : Json();
  whole_["usage"] = response_usage(usage);
  whole_["output"] = items_.items();
  return events_of({{{"type", "response." + whole_["status"].get<std::string>()}, {"response", whole_}}});
}

std::string ResponseObject::fail(const HttpError& error) {
  const std::string events = events_of(items_.finish(false));
  whole_["output"] = items_.items();
  return events + break_off(error);
}

std::string ResponseObject::break_off(const HttpError& error) {
  whole_["status"] = "failed";
  whole_["error"] = {{"code", code_of(error)}, {"message", error.what()}};
  return events_of({{{"type", "response.failed"}, {"response", whole_}}});
}

std::string ResponseObject::cancel() {
  const std::string events = events_of(items_.finish(false));
  whole_["status"] = "cancelled";
  whole_["output"] = items_.items();
  return events + events_of({{{"type", "response.cancelled"}, {"response", whole_}}});
}

std::string ResponseObject::queue() {
  whole_["status"] = "queued";
  if (!is_stream_) return "";
  std::string events;
  for (const char* type : {"response.created", "response.queued"})
    events += print_event({{"type", type}, {"response", whole_}});
  return events;
}

std::string ResponseObject::start() {
  whole_["status"] = "in_progress";
  return events_of({{{"type", "response.in_progress"}, {"response", whole_}}});
}

std::string ResponseObject::still_in_progress() {
  if (num_events_ == 0) return events_of({});
  return is_stream_ ? print_event({{"type", "response.in_progress"}, {"response", whole_}}) : "";
}

std::string ResponseObject::events_of(const std::vector<Json>& events) {
  std::string text;
  if (!is_stream_) return text;
  if (num_events_ == 0)
    for (const char* type : {"response.created", "response.in_progress"})
      text += print_event({{"type", type}, {"response", whole_}});
  for (const Json& event : events) text += print_event(event);
  return text;
}

std::string ResponseObject::print_event(Json event) {
  event["sequence_number"] = num_events_++;
  return named_sse_event(event);
}

}  // namespace nibble::server
