#include "server/api/completion_request.h"

#include "core/text/json.h"

namespace nibble::server {
namespace {

Prompt read_prompt(const Field& field) {
  if (field.value().is_string()) return field.string();
  return read_tokens(field, "a string or a list of token ids");
}

// Reads the prompts: a text, a list of token ids, or a list of texts and lists of token ids.
std::vector<Prompt> read_prompts(const Field& field) {
  const Json& value = field.value();
  if (!value.is_array()) {
    if (!value.is_string()) field.refuse("a string, a list of token ids, or a list of these");
    return {field.string()};
  }
  if (value.empty()) field.refuse("a string or a list of token ids, not empty");
  if (value.front().is_number()) return {read_prompt(field)};
  std::vector<Prompt> prompts;
  for (const Field& element : field.elements()) prompts.push_back(read_prompt(element));
  return prompts;
}

}  // namespace

CompletionRequest read_completion_request(std::string_view body, const RequestDefaults& defaults) {
  const Json json = harmony::parse_json(body, "the body");
  harmony::ReadRecord record;
  const Field request(json, "request", &record);
  CompletionRequest read;
  read.params = read_generation_params(Api::kCompletions, request, defaults);
  if (!request.find("max_tokens")) read.params.max_tokens = kDefaultCompletionTokens;
  read.prompts = read_prompts(request.need("prompt", "a string or a list of token ids"));
  read.num_kept = read.params.num_choices;
  if (const auto best_of = request.find("best_of")) {
    const int64_t num_tried = read_whole_number(*best_of, read.num_kept, kMaxChoices);
    if (read.params.stream && num_tried > read.num_kept)
      best_of->refuse("equal to n if stream is true", "the best answers are known only at the end");
    read.params.num_choices = static_cast<int>(num_tried);
  }
  read.echo = read_boolean(request, "echo");
  if (const auto logprobs = request.find("logprobs")) {
    read.params.sample.num_logprobs = static_cast<int>(read_whole_number(*logprobs, 0, kMaxLogprobs));
  }
  note_unread(Api::kCompletions, request, record, read.params.ignored);
  return read;
}

}  // namespace nibble::server
