#include "server/api/response_store.h"

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

void ResponseStore::put(std::string id, std::vector<harmony::ChatMessage> messages) {
  const size_t num_bytes = sizeof(Entry) + 2 * id.size() + bytes_of(messages);
  if (num_bytes > max_bytes_) return;
  for (; num_bytes_ + num_bytes > max_bytes_; entries_.pop_back()) {
    num_bytes_ -= entries_.back().num_bytes;
    by_id_.erase(entries_.back().id);
  }
  num_bytes_ += num_bytes;
  entries_.push_front({std::move(id), std::move(messages), num_bytes});
  by_id_[entries_.front().id] = entries_.begin();
}

const std::vector<harmony::ChatMessage>* ResponseStore::find(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->messages;
}

}  // namespace nibble::server
