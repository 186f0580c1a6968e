#include "server/api/response_items.h"

#include <algorithm>
#include <utility>

#include "core/text/remove_member.h"
#include "server/api/sealed_reasoning.h"
#include "server/http/random_id.h"

namespace nibble::server {

struct ItemKind {  // a kind of item, and the names in its JSON and in its events
  AnswerDelta::Kind kind;
  ToolKind tool;  // kCall only: the tool's kind
  const char *id_prefix, *type;
  const char* part;  // type of the item's only content part; null: no content part
  // If `part` is null: the item's member that holds the text. If `text` is null too, the arguments become an
  // object once they are complete.
  const char* text;
  const char* event;  // name of the item's events, without ".delta" or ".done"; null: no such events
};

namespace {

using Kind = AnswerDelta::Kind;

constexpr ItemKind kKinds[] = {
    {Kind::kReasoning, {}, "rs_", "reasoning", "reasoning_text", nullptr, "response.reasoning_text"},
    {Kind::kContent, {}, "msg_", "message", "output_text", nullptr, "response.output_text"},
    {Kind::kCall, ToolKind::kFunction, "fc_", "function_call", nullptr, "arguments",
     "response.function_call_arguments"},
    {Kind::kCall, ToolKind::kCustom, "ctc_", "custom_tool_call", nullptr, "input",
     "response.custom_tool_call_input"},
    {Kind::kCall, ToolKind::kLocalShell, "lsh_", "local_shell_call", nullptr, nullptr, nullptr},
    {Kind::kCall, ToolKind::kToolSearch, "tsc_", "tool_search_call", nullptr, nullptr, nullptr},
    {Kind::kCall, ToolKind::kShell, "sh_", "shell_call", nullptr, nullptr, nullptr},
    {Kind::kCall, ToolKind::kApplyPatch, "apc_", "apply_patch_call", nullptr, nullptr, nullptr},
};
const ItemKind& kind_of(const AnswerDelta& delta) {
  for (const ItemKind& row : kKinds)
    if (row.kind == delta.kind && (delta.kind != Kind::kCall || row.tool == delta.tool.kind)) return row;
  return kKinds[0];
}

Json new_item(const AnswerDelta& delta, const ItemKind& kind) {
  Json item{{"id", kind.id_prefix + random_id()}, {"type", kind.type}};
  switch (delta.kind) {
    case Kind::kReasoning:
      item["summary"] = Json::array();
      item["content"] = Json::array();
      item["encrypted_content"] = nullptr;
      break;
    case Kind::kContent:
      item["role"] = "assistant";
      item["phase"] = delta.is_preamble ? "commentary" : "final_answer";
      item["content"] = Json::array();
      break;
    case Kind::kCall:
      item["call_id"] = delta.id;
      if (kind.text) item["name"] = delta.tool.name;
      if (kind.text) item[kind.text] = "";
      if (delta.tool.space != "functions") item["namespace"] = delta.tool.space;
      if (kind.tool == ToolKind::kToolSearch) item["execution"] = "client";
      if (kind.tool == ToolKind::kToolSearch) item["arguments"] = Json::object();
      if (kind.tool == ToolKind::kLocalShell)
        item["action"] = {{"type", "exec"}, {"command", Json::array()}, {"env", Json::object()}};
      if (kind.tool == ToolKind::kShell)
        item["action"] = {
            {"commands", Json::array()}, {"timeout_ms", nullptr}, {"max_output_length", nullptr}};
      if (kind.tool == ToolKind::kApplyPatch)
        item["operation"] = {{"type", "update_file"}, {"path", ""}, {"diff", ""}};
  }
  item["status"] = "in_progress";
  return item;
}

bool are_texts(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const Json& word) { return word.is_string(); });
}

Json member(const Json& given, const char* key) {  // null if absent
  return given.is_object() ? given.value(key, Json()) : Json();
}

void set_action(Json& action, const Json& given, const std::string& arguments) {
  const Json command = member(given, "command");
  action["command"] = are_texts(command)
                          ? command
                          : Json::array({"bash", "-lc", command.is_string() ? command : Json(arguments)});
  if (const Json folder = member(given, "workdir"); folder.is_string()) action["working_directory"] = folder;
  if (const Json timeout = member(given, "timeout_ms"); timeout.is_number()) action["timeout_ms"] = timeout;
}

// Adds a call's arguments as an object. Complete arguments that are not a JSON object become the command (the
// shell then reports the error), the diff or the query. If such arguments were cut off, nothing is added.
void set_arguments(Json& item, const std::string& arguments, ToolKind tool, bool is_whole) {
  const Json given = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!is_whole && !given.is_object()) return;
  if (tool == ToolKind::kToolSearch) {
    item["arguments"] = given.is_object() ? given : Json{{"query", arguments}};
  } else if (tool == ToolKind::kShell) {
    const Json commands = member(given, "commands");
    item["action"]["commands"] = are_texts(commands) ? commands : Json::array({arguments});
    for (const char* key : {"timeout_ms", "max_output_length"})
      if (const Json limit = member(given, key); limit.is_number()) item["action"][key] = limit;
  } else if (tool == ToolKind::kApplyPatch) {
    if (!given.is_object()) item["operation"]["diff"] = arguments;
    for (const char* key : {"type", "path", "diff"})
      if (const Json text = member(given, key); text.is_string()) item["operation"][key] = text;
    if (item["operation"]["type"] == "delete_file") remove_member(item["operation"], "diff");
  } else {
    set_action(item["action"], given, arguments);
  }
}

}  // namespace

std::vector<Json> ResponseItems::push(const std::vector<AnswerDelta>& deltas) {
  std::vector<Json> events;
  for (const AnswerDelta& delta : deltas) push(delta, events);
  return events;
}

std::vector<Json> ResponseItems::finish(bool is_complete) {
  std::vector<Json> events;
  end(is_complete ? "completed" : "incomplete", events);
  return events;
}

Json ResponseItems::event(std::string_view type) const {
  return {{"type", type}, {"item_id", items_.back()["id"]}, {"output_index", items_.size() - 1}};
}

void ResponseItems::begin(const AnswerDelta& delta, std::vector<Json>& events) {
  open_ = &kind_of(delta);
  arguments_.clear();
  items_.push_back(new_item(delta, *open_));
  events.push_back(
      {{"type", "response.output_item.added"}, {"output_index", items_.size() - 1}, {"item", items_.back()}});
  if (!open_->part) return;
  Json part{{"type", open_->part}, {"text", ""}};
  if (delta.kind == Kind::kContent) part["annotations"] = part["logprobs"] = Json::array();
  Json added = event("response.content_part.added");
  added["content_index"] = 0;
  added["part"] = part;
  events.push_back(std::move(added));
  items_.back()["content"].push_back(std::move(part));
}

void ResponseItems::push(const AnswerDelta& delta, std::vector<Json>& events) {
  const bool begins = delta.kind == Kind::kCall ? !delta.id.empty() : delta.begins_message;
  if (open_ && (begins || open_->kind != delta.kind)) {
    // The text of these tokens was removed by a stop string, so they belong to no open item.
    if (delta.text.empty() && !begins) return;
    end("completed", events);
  }
  if (!open_) {
    if (delta.text.empty() && !begins) return;
    begin(delta, events);
  }
  if (delta.text.empty() && delta.tokens.empty()) return;
  if (!open_->event) {
    arguments_ += delta.text;
    return;
  }
  Json told = event(std::string(open_->event) + ".delta");
  if (open_->part) told["content_index"] = 0;
  told["delta"] = delta.text;
  Json& text = open_->part ? items_.back()["content"][0]["text"] : items_.back()[open_->text];
  text = text.get_ref<const std::string&>() + delta.text;
  if (delta.kind == Kind::kContent) {
    Json logprobs = Json::array();
    if (with_logprobs_) logprobs = std::move(chat_logprobs(delta.tokens, tokenizer_)["content"]);
    Json& all = items_.back()["content"][0]["logprobs"];
    all.insert(all.end(), logprobs.begin(), logprobs.end());
    told["logprobs"] = std::move(logprobs);
  }
  events.push_back(std::move(told));
}

void ResponseItems::end(std::string_view status, std::vector<Json>& events) {
  if (!open_) return;
  Json& item = items_.back();
  if (!open_->event) {
    set_arguments(item, arguments_, open_->tool, status == "completed");
  } else {
    Json done = event(std::string(open_->event) + ".done");
    if (open_->part) {
      done["content_index"] = 0;
      done["text"] = item["content"][0]["text"];
      if (open_->kind == Kind::kContent) done["logprobs"] = item["content"][0]["logprobs"];
    } else {
      if (open_->tool == ToolKind::kFunction) done["name"] = item["name"];
      done[open_->text] = item[open_->text];
    }
    events.push_back(std::move(done));
  }
  if (open_->part) {
    Json part_done = event("response.content_part.done");
    part_done["content_index"] = 0;
    part_done["part"] = item["content"][0];
    events.push_back(std::move(part_done));
  }
  if (seals_reasoning_ && open_->kind == Kind::kReasoning)
    item["encrypted_content"] = seal_reasoning(item["content"][0]["text"].get_ref<const std::string&>());
  item["status"] = status;
  events.push_back(
      {{"type", "response.output_item.done"}, {"output_index", items_.size() - 1}, {"item", item}});
  open_ = nullptr;
}

}  // namespace nibble::server
