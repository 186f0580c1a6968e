// Conversations of earlier responses, which a request can continue by the response's id. They are kept in memory, up to a
// bound; the least recently used one is dropped first.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "harmony/chat.h"

namespace nibble::server {

// Memory of a conversation, without the allocator's overhead.
size_t bytes_of(const std::vector<harmony::ChatMessage>& messages);

class ResponseStore {
 public:
  explicit ResponseStore(size_t max_bytes) : max_bytes_(max_bytes) {}

  // A conversation larger than the bound is not stored.
  void put(std::string id, std::vector<harmony::ChatMessage> messages);
  // Null if it was never stored or was dropped. Marks it as used. Valid until the next put().
  const std::vector<harmony::ChatMessage>* find(const std::string& id);

  size_t num_bytes() const { return num_bytes_; }  // of all conversations

 private:
  struct Entry {
    std::string id;
    std::vector<harmony::ChatMessage> messages;
    size_t num_bytes;
  };

  size_t max_bytes_;
  size_t num_bytes_{0};
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;
};

}  // namespace nibble::server
