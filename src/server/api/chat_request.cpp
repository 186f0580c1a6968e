#include "server/api/chat_request.h"

#include <utility>

#include "core/text/json.h"
#include "server/api/reasoning_params.h"

namespace nibble::server {

namespace {

// Reads whether the client sees reasoning, and the model's name in the prompt.
void read_presentation(const Field& request, ChatRequest& read) {
  if (const auto include = request.find("include_reasoning")) read.includes_reasoning = include->boolean();
  if (const auto reasoning = request.find("reasoning"); reasoning && read_boolean(*reasoning, "exclude"))
    read.includes_reasoning = false;
  if (const auto kwargs = request.find("chat_template_kwargs"))
    read.chat.model_identity = kwargs->find_string("model_identity");
}

ToolSet read_tools(const Field& request, ChatRequest& read) {
  ToolSet tools;
  if (const auto list = request.find("tools"))
    for (const Field& tool : list->elements()) add_chat_tool(tool, tools, read.params.ignored);
  apply_tool_choice(request, tools, read.params);
  const auto functions = request.find("functions");
  const auto call = request.find("function_call");
  const bool must_call = call && call->value().is_object(), may_not_call = call && call->value() == "none";
  if (call && !must_call && !may_not_call && call->value() != "auto")
    call->refuse("\"auto\", \"none\" or a function's name");
  if (functions) {
    if (request.find("tools")) functions->refuse("absent if tools is present");
    read.uses_functions = true;
    for (const Field& function : functions->elements()) add_function(function, tools, read.params.ignored);
  }
  if (may_not_call) tools.allow_only({});
  if (must_call) force_call(*call, call->need_string("name"), tools, read.params);
  return tools;
}

// Returns the text of a prediction: a string, or parts of type "text" as in messages.
std::string read_prediction(const Field& request) {
  const auto prediction = request.find("prediction");
  if (!prediction) return "";
  if (prediction->need_string("type") != "content") prediction->need("type", "").refuse("\"content\"");
  const Field content = prediction->need("content", "a string, or a list of parts of type \"text\"");
  if (!content.value().is_array()) return content.string();
  std::string text;
  for (const Field& part : content.elements()) {
    if (part.need_string("type") != "text") part.need("type", "").refuse("\"text\"");
    text += part.need_string("text");
  }
  return text;
}

// Reads whether the prompt ends with the start of a new message, or with an unfinished message to continue.
void read_ends(const Field& request, ChatRequest& read) {
  if (const auto adds = request.find("add_generation_prompt")) read.adds_generation_prompt = adds->boolean();
  read.continues_final = read_boolean(request, "continue_final_message");
  if (!read.continues_final) return;
  if (request.find("add_generation_prompt") && read.adds_generation_prompt)
    request.find("add_generation_prompt")->refuse("false if continue_final_message is true");
  read.adds_generation_prompt = false;
  const harmony::ChatMessage& last = read.chat.messages.back();
  if (last.role != harmony::Role::kAssistant || !last.tool_calls.empty())
    request.find("continue_final_message")
        ->refuse("false if the last message is not the assistant's, or has tool calls");
}

}  // namespace

ChatRequest read_chat(const Json& json, const RequestDefaults& defaults) {
  harmony::ReadRecord record;
  const Field request(json, "request", &record);
  ChatRequest read;
  GenerationParams& params = read.params;
  params = read_generation_params(Api::kChat, request, defaults);
  if (const auto max_tokens = request.find("max_completion_tokens"))  // Overrides max_tokens, its older name.
    params.max_tokens = read_limit(*max_tokens, 1);
  const auto top = request.find("top_logprobs");
  if (read_boolean(request, "logprobs"))
    params.sample.num_logprobs = top ? static_cast<int>(read_whole_number(*top, 0, kMaxLogprobs)) : 0;
  else if (top && top->value() != 0)
    top->refuse("absent or 0 unless logprobs is true");
  ToolSet tools = read_tools(request, read);
  const Field messages = request.need("messages", "a list of messages");
  for (const Field& message : messages.elements())
    read.chat.messages.push_back(harmony::chat_message_from_json(message));
  if (read.chat.messages.empty()) messages.refuse("a list of at least one message");
  read.chat.tools = std::move(tools.functions);
  read.offered = std::move(tools.offered);
  read.chat.reasoning_effort = defaults.effort;
  read_reasoning(request, read.chat, params);
  read_presentation(request, read);
  read.prediction = read_prediction(request);
  read.returns_progress = read_boolean(request, "return_progress") && params.stream;
  read.is_resumable = read_boolean(request, "resumable");
  if (read.is_resumable && !params.stream) request.find("resumable")->refuse("false unless stream is true");
  read_ends(request, read);
  note_unread(Api::kChat, request, record, params.ignored);
  return read;
}

ChatRequest read_chat_request(std::string_view body, const RequestDefaults& defaults) {
  return read_chat(harmony::parse_json(body, "the body"), defaults);
}

}  // namespace nibble::server
