#include "server/api/response_items.h"

#include <utility>

#include "server/http/random_id.h"

namespace nibble::server {
namespace {

using Kind = AnswerDelta::Kind;

// Names of the three kinds of items and of their events; `part` is null for a kind without content parts.
struct KindRow {
  Kind kind;
  const char *id_prefix, *part, *delta, *done;
};
constexpr KindRow kKinds[] = {
    {Kind::kReasoning, "rs_", "reasoning_text", "response.reasoning_text.delta",
     "response.reasoning_text.done"},
    {Kind::kContent, "msg_", "output_text", "response.output_text.delta", "response.output_text.done"},
    {Kind::kCall, "fc_", nullptr, "response.function_call_arguments.delta",
     "response.function_call_arguments.done"},
};
const KindRow& row_of(Kind kind) {
  for (const KindRow& row : kKinds)
    if (row.kind == kind) return row;
  return kKinds[0];
}

Json new_item(const AnswerDelta& delta, const std::string& id) {
  switch (delta.kind) {
    case Kind::kReasoning:
      return {{"id", id},
              {"type", "reasoning"},
              {"summary", Json::array()},
              {"content", Json::array()},
              {"status", "in_progress"}};
    case Kind::kContent:
      return {{"id", id},
              {"type", "message"},
              {"role", "assistant"},
              {"content", Json::array()},
              {"status", "in_progress"}};
    case Kind::kCall:
      break;
  }
  return {{"id", id},           {"type", "function_call"}, {"call_id", delta.id},
          {"name", delta.name}, {"arguments", ""},         {"status", "in_progress"}};
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
  const KindRow& row = row_of(delta.kind);
  items_.push_back(new_item(delta, row.id_prefix + random_id()));
  open_ = delta.kind;
  events.push_back(
      {{"type", "response.output_item.added"}, {"output_index", items_.size() - 1}, {"item", items_.back()}});
  if (!row.part) return;
  Json part{{"type", row.part}, {"text", ""}};
  if (delta.kind == Kind::kContent) part["annotations"] = part["logprobs"] = Json::array();
  Json added = event("response.content_part.added");
  added["content_index"] = 0;
  added["part"] = part;
  events.push_back(std::move(added));
  items_.back()["content"].push_back(std::move(part));
}

void ResponseItems::push(const AnswerDelta& delta, std::vector<Json>& events) {
  const bool begins = delta.kind == Kind::kCall ? !delta.id.empty() : delta.begins_message;
  if (open_ && (begins || *open_ != delta.kind)) {
    if (delta.text.empty() && !begins)
      return;  // tokens whose text a stop string removed, and there is no open item to add them to
    end("completed", events);
  }
  if (!open_) {
    if (delta.text.empty() && !begins) return;
    begin(delta, events);
  }
  if (delta.text.empty() && delta.tokens.empty()) return;
  const KindRow& row = row_of(delta.kind);
  Json told = event(row.delta);
  if (row.part) told["content_index"] = 0;
  told["delta"] = delta.text;
  Json& text = row.part ? items_.back()["content"][0]["text"] : items_.back()["arguments"];
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
  const KindRow& row = row_of(*open_);
  Json& item = items_.back();
  Json done = event(row.done);
  if (row.part) {
    done["content_index"] = 0;
    done["text"] = item["content"][0]["text"];
    if (*open_ == Kind::kContent) done["logprobs"] = item["content"][0]["logprobs"];
  } else {
    done["name"] = item["name"];
    done["arguments"] = item["arguments"];
  }
  events.push_back(std::move(done));
  if (row.part) {
    Json part_done = event("response.content_part.done");
    part_done["content_index"] = 0;
    part_done["part"] = item["content"][0];
    events.push_back(std::move(part_done));
  }
  item["status"] = status;
  events.push_back(
      {{"type", "response.output_item.done"}, {"output_index", items_.size() - 1}, {"item", item}});
  open_.reset();
}

}  // namespace nibble::server
