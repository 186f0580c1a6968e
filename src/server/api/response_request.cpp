#include "server/api/response_request.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "core/text/remove_member.h"
#include "server/api/reasoning_params.h"
#include "server/api/reply.h"
#include "server/api/response_input.h"
#include "server/http/http_error.h"
#include "server/http/random_id.h"

namespace nibble::server {
namespace {

void read_include(const Field& request, ResponseRequest& read) {
  // These values are accepted and add nothing, because this server has no built-in tools and no images.
  constexpr std::string_view kNeverThere[]{
      "file_search_call.results",
      "web_search_call.results",
      "web_search_call.action.sources",
      "message.input_image.image_url",
      "computer_call_output.output.image_url",
      "code_interpreter_call.outputs",
  };
  if (const auto include = request.find("include"))
    for (const Field& what : include->elements()) {
      if (what.value() == "message.output_text.logprobs")
        read.params.sample.num_logprobs = 0;
      else if (what.value() == "reasoning.encrypted_content")
        read.seals_reasoning = true;
      else if (std::ranges::find(kNeverThere, what.value()) == std::end(kNeverThere))
        what.refuse("one of the values in OpenAI's API");
    }
  if (const auto top = request.find("top_logprobs"); top && top->value() != 0)
    read.params.sample.num_logprobs = static_cast<int>(read_whole_number(*top, 0, kMaxLogprobs));
}

// Reads the fields about storing and continuing responses: storage, background, truncation, metadata.
void read_keeping(const Field& request, ResponseRequest& read) {
  read.previous_id = request.find_string("previous_response_id");
  if (const auto store = request.find("store")) read.store = store->boolean();
  read.is_background = read_boolean(request, "background");
  if (read.is_background && !read.store) request.find("background")->refuse("false if store is false");
  if (const auto truncation = request.find("truncation")) {
    read.may_truncate = truncation->value() == "auto";
    if (!read.may_truncate && truncation->value() != "disabled")
      truncation->refuse("\"auto\" or \"disabled\"");
  }
  if (const auto metadata = request.find("metadata"); metadata && !metadata->value().is_object())
    metadata->refuse("an object");
}

std::vector<StoredItem> items_to_store(const Json& input) {
  Json items = input;
  if (input.is_string())
    items = Json::array({Json{{"type", "message"},
                              {"role", "user"},
                              {"content", Json::array({Json{{"type", "input_text"}, {"text", input}}})}}});
  std::vector<StoredItem> stored;
  for (Json& item : items) {
    const auto id = item.find("id");
    if (id == item.end() || !id->is_string()) item["id"] = "msg_" + random_id();
    if (!item.contains("type")) item["type"] = "message";
    stored.push_back({item["id"].get<std::string>(), print(item)});
  }
  return stored;
}

// Whether the item refers to a stored item. The type is optional: an item with only an id is a reference.
bool is_reference(const Json& item) {
  if (!item.is_object()) return false;
  if (const auto type = item.find("type"); type != item.end() && !type->is_null())
    return *type == "item_reference";
  return item.contains("id") && std::ranges::all_of(item.items(), [](const auto& member) {
           return member.key() == "id" || member.value().is_null();
         });
}

}  // namespace

void resolve_references(Json& body,
                        const std::function<const std::string*(const std::string& id)>& find_item) {
  const auto input = body.is_object() ? body.find("input") : body.end();
  if (input == body.end() || !input->is_array()) return;
  for (Json& item : *input) {
    if (!is_reference(item)) continue;
    const Json id = item.value("id", Json());
    const std::string* found = id.is_string() ? find_item(id.get<std::string>()) : nullptr;
    if (!found) {
      HttpError error(404, "Item with id '{}' not found: no stored response has it. Send the item itself.",
                      id.is_string() ? id.get<std::string>() : print(id).substr(0, 60));
      error.param = "input";
      throw error;
    }
    item = Json::parse(*found);
  }
}

ResponseRequest read_response(Json body, const RequestDefaults& defaults) {
  ResponseRequest read;
  read.body = std::move(body);
  harmony::ReadRecord record;
  const Field request(read.body, "request", &record);
  read.params = read_generation_params(Api::kResponses, request, defaults);
  if (read.params.num_choices != 1) request.find("n")->refuse("1", "a response is one answer");
  if (const auto most = request.find("max_output_tokens"))
    read.params.max_tokens = static_cast<int>(read_whole_number(*most, 1, INT_MAX));
  read_include(request, read);
  read_keeping(request, read);

  const Field input = request.need("input", "a string or a list of items");
  ResponseInput items;
  if (input.value().is_string()) {
    items.messages.emplace_back().text = input.string();
  } else {
    if (!input.value().is_array() || input.value().empty())
      input.refuse("a string or a non-empty list of items");
    items = read_items(input, read.params.ignored);
  }
  ToolSet tools;
  if (const auto list = request.find("tools"))
    for (const Field& tool : list->elements()) add_response_tool(tool, tools, read.params.ignored);
  tools.add_new(std::move(items.tools), read.params.ignored);
  apply_tool_choice(request, tools, read.params);
  read.chat.messages = std::move(items.messages);
  read.chat.tools = std::move(tools.functions);
  read.chat.namespaces = std::move(tools.namespaces);
  read.offered = std::move(tools.offered);
  read.chat.instructions = request.find_string("instructions").value_or("");
  read.chat.reasoning_effort = defaults.effort;
  read_reasoning(request, read.chat, read.params);
  note_unread(Api::kResponses, request, record, read.params.ignored);
  if (read.store) read.input_items = items_to_store(input.value());
  remove_member(read.body, "input");  // its content is in read.chat
  return read;
}

ResponseRequest read_response_request(std::string_view body) {
  return read_response(harmony::parse_json(body, "the body"));
}

}  // namespace nibble::server
