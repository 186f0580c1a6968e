#include "server/api/response_store.h"

#include <iterator>
#include <utility>

namespace nibble::server {

size_t bytes_of(const std::vector<harmony::ChatMessage>& messages) {
  size_t num_bytes = 0;
  for (const harmony::ChatMessage& message : messages) {
    num_bytes += sizeof message + message.text.size() + message.reasoning.size();
    for (const harmony::ToolCall& call : message.tool_calls)
      num_bytes += sizeof call + call.id.size() + call.name.size() + call.arguments.size();
  }
  return num_bytes;
}

void ResponseStore::drop(std::list<Entry>::iterator entry) {
  for (const auto* items : {&entry->response.input, &entry->response.output})
    for (const StoredItem& item : *items)
      if (const auto found = items_.find({entry->id.owner, item.id});
          found != items_.end() && found->second == &item.json)
        items_.erase(found);
  num_bytes_ -= entry->num_bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

void ResponseStore::put(OwnedId id, StoredResponse response) {
  size_t num_bytes = sizeof(Entry) + 2 * (id.owner.size() + id.id.size()) + bytes_of(response.messages) +
                     response.json.size();
  for (const auto* items : {&response.input, &response.output})
    for (const StoredItem& item : *items)
      num_bytes += 2 * sizeof item + 2 * item.id.size() + id.owner.size() + item.json.size();
  erase(id);
  if (num_bytes > max_bytes_) return;
  while (num_bytes_ + num_bytes > max_bytes_) drop(std::prev(entries_.end()));
  num_bytes_ += num_bytes;
  entries_.push_front({std::move(id), std::move(response), num_bytes});
  Entry& entry = entries_.front();
  by_id_[entry.id] = entries_.begin();
  for (const auto* items : {&entry.response.input, &entry.response.output})
    for (const StoredItem& item : *items) items_[{entry.id.owner, item.id}] = &item.json;
}

const StoredResponse* ResponseStore::find(const OwnedId& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->response;
}

const std::string* ResponseStore::find_item(const OwnedId& id) const {
  const auto found = items_.find(id);
  return found == items_.end() ? nullptr : found->second;
}

bool ResponseStore::erase(const OwnedId& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  drop(found->second);
  return true;
}

}  // namespace nibble::server
