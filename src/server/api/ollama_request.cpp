#include "server/api/ollama_request.h"

#include <climits>
#include <utility>

#include "core/text/json.h"
#include "server/api/reasoning_params.h"

namespace nibble::server {
namespace {

// Refuses a repeat_last_n above 0: nibble's penalty counts all tokens, not only the last repeat_last_n.
void read_penalty(const Field& options, GenerationParams& params) {
  const auto penalty = options.find("repeat_penalty");
  if (!penalty || penalty->value() == 1) return;
  const auto last = options.find("repeat_last_n");
  const int64_t num_last = last ? read_whole_number(*last, -1, INT_MAX) : -1;
  if (num_last == 0) return;
  if (num_last > 0) last->refuse("-1 or 0", "repeat_penalty counts the whole context");
  const Json named{{"repetition_penalty", penalty->value()}};
  read_sampling(Field(named, options.place()), params);
}

void read_options(const Field& options, GenerationParams& params) {
  read_sampling(options, params);
  if (const auto seed = options.find("seed"); seed && seed->value() == -1) params.has_seed = false;
  read_penalty(options, params);
  read_stop(options, params);
  if (const auto most = options.find("num_predict")) {
    const int64_t num_tokens = read_whole_number(*most, -2, INT_MAX);  // -2, -1 and 0 mean no limit
    if (num_tokens > 0) params.max_tokens = static_cast<int>(num_tokens);
  }
}

void read_common(const Field& request, const RequestDefaults& defaults, ChatRequest& read) {
  GenerationParams& params = read.params;
  params.sample = defaults.sample;
  read.chat.reasoning_effort = defaults.effort;
  check_fields(Api::kOllama, request, params.ignored);
  if (const auto name = request.find_string("model")) params.model = without_tag(*name);
  params.format = read_output_format(Api::kOllama, request);
  read_sharing(request, params);
  const auto stream = request.find("stream");
  params.stream = !stream || stream->boolean();
  if (const auto options = request.find("options")) read_options(*options, params);
  const auto top = request.find("top_logprobs");
  if (read_boolean(request, "logprobs"))
    params.sample.num_logprobs = top ? static_cast<int>(read_whole_number(*top, 0, kMaxLogprobs)) : 0;
  if (const auto think = request.find("think")) {
    if (think->value().is_boolean()) {
      read.includes_reasoning = think->boolean();
      if (!read.includes_reasoning) turn_off_reasoning(*think, read.chat, params.ignored);
    } else {
      read.chat.reasoning_effort = read_effort(*think, params.ignored);
    }
  }
}

}  // namespace

std::string without_tag(std::string name) {
  constexpr std::string_view kTag{":latest"};
  if (name.ends_with(kTag)) name.resize(name.size() - kTag.size());
  return name;
}

OllamaRequest read_ollama_chat(std::string_view body, const RequestDefaults& defaults) {
  const Json json = harmony::parse_json(body, "the body");
  harmony::ReadRecord record;
  const Field request(json, "request", &record);
  OllamaRequest read;
  read_common(request, defaults, read.chat);
  const auto messages = request.find("messages");
  read.only_loads = !messages || (messages->value().is_array() && messages->value().empty());
  if (read.only_loads) return read;
  for (const Field& message : messages->elements())
    read.chat.chat.messages.push_back(harmony::chat_message_from_json(message));
  ToolSet tools;
  if (const auto list = request.find("tools"))
    for (const Field& tool : list->elements()) add_chat_tool(tool, tools, read.chat.params.ignored);
  read.chat.chat.tools = std::move(tools.functions);
  read.chat.offered = std::move(tools.offered);
  note_unread(Api::kOllama, request, record, read.chat.params.ignored);
  return read;
}

OllamaRequest read_ollama_generate(std::string_view body, const RequestDefaults& defaults) {
  const Json json = harmony::parse_json(body, "the body");
  harmony::ReadRecord record;
  const Field request(json, "request", &record);
  OllamaRequest read;
  read_common(request, defaults, read.chat);
  note_unread(Api::kOllama, request, record, read.chat.params.ignored);
  read.prompt = request.find_string("prompt").value_or("");
  read.only_loads = read.prompt.empty();
  read.is_raw = read_boolean(request, "raw");
  if (read.is_raw) {  // the prompt is continued as it is, without a chat
    for (const char* key : {"system", "think", "logprobs"})
      if (request.find(key)) read.chat.params.ignored.add(key);
    return read;
  }
  read.chat.chat.instructions = request.find_string("system").value_or("");
  read.chat.chat.messages.emplace_back().text = std::move(read.prompt);
  return read;
}

std::string read_ollama_model(std::string_view body, IgnoredFields& ignored) {
  const Json json = harmony::parse_json(body, "the body");
  const Field request(json, "request");
  check_fields(Api::kOllamaShow, request, ignored);
  const auto older = request.find_string("name");
  return without_tag(older ? *older : request.need_string("model"));
}

}  // namespace nibble::server
