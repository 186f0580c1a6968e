// Responses that can be asked for again, or continued, by their id: the conversation up to their end, the response itself, and the items of
// its request. They are kept in memory, up to a bound; the least recently used one is dropped first.
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

struct StoredItem {
  std::string id;
  std::string json;
};

struct StoredResponse {
  std::vector<harmony::ChatMessage> messages;
  std::string json;  // the object that create() gave
  std::vector<StoredItem> input, output;
};

class ResponseStore {
 public:
  explicit ResponseStore(size_t max_bytes) : max_bytes_(max_bytes) {}

  // One larger than the bound is not stored.
  void put(std::string id, StoredResponse response);
  // Null if it was never stored or was dropped. Marks it as used. Valid until the next put() or erase().
  const StoredResponse* find(const std::string& id);
  // The item of this id, of any response; null if there is none.
  const std::string* find_item(const std::string& id) const;
  bool erase(const std::string& id);

  size_t num_bytes() const { return num_bytes_; }  // of all responses

 private:
  struct Entry {
    std::string id;
    StoredResponse response;
    size_t num_bytes;
  };
  void drop(std::list<Entry>::iterator entry);

  size_t max_bytes_;
  size_t num_bytes_{0};
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;
  std::unordered_map<std::string, const std::string*> items_;  // of the entries
};

}  // namespace nibble::server
