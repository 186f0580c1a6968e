// The conversations that responses ended, so that a later request can go on with one by its id. In memory, within a
// bound: the one that was used longest ago goes first.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "harmony/chat.h"

namespace nibble::server {

// Of what a conversation holds; the allocator's own share is not counted.
size_t bytes_of(const std::vector<harmony::ChatMessage>& messages);

class ResponseStore {
 public:
  explicit ResponseStore(size_t max_bytes) : max_bytes_(max_bytes) {}

  // What does not fit the bound by itself is not kept.
  void put(std::string id, std::vector<harmony::ChatMessage> messages);
  // Null: never stored, or gone. Counts as used. Valid until the next put.
  const std::vector<harmony::ChatMessage>* find(const std::string& id);

  size_t num_bytes() const { return num_bytes_; }  // about what it takes

 private:
  struct Entry {
    std::string id;
    std::vector<harmony::ChatMessage> messages;
    size_t num_bytes;
  };

  size_t max_bytes_;
  size_t num_bytes_{0};
  std::list<Entry> entries_;  // used last first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;
};

}  // namespace nibble::server
