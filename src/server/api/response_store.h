// Stores responses in memory, to fetch or continue them by id: conversation, response, and items of the
// request. Above a limit on bytes, drops the least recently used response first.
#pragma once

#include <compare>
#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "harmony/chat.h"

namespace nibble::server {

// Returns the bytes that the messages of a conversation take in memory, without the allocator's overhead.
size_t bytes_of(const std::vector<harmony::ChatMessage>& messages);

struct StoredItem {
  std::string id;
  std::string json;
};

struct StoredResponse {
  std::vector<harmony::ChatMessage> messages;
  std::string json;  // the response object
  std::vector<StoredItem> input, output;
};

// The id of a response or item, and its owner: the user who stored it. Other users can't find it.
struct OwnedId {
  std::string owner;  // the API key's user: RequestRecord::key_owner
  std::string id;
  auto operator<=>(const OwnedId&) const = default;
};

class ResponseStore {
 public:
  explicit ResponseStore(size_t max_bytes) : max_bytes_(max_bytes) {}

  void put(OwnedId id, StoredResponse response);  // does nothing if the response exceeds the limit
  // Returns null if absent. Marks the response as used. The pointer is valid until put() or erase().
  const StoredResponse* find(const OwnedId& id);
  // Searches the responses of the id's owner for an item; null if absent.
  const std::string* find_item(const OwnedId& id) const;
  bool erase(const OwnedId& id);

  size_t num_bytes() const { return num_bytes_; }  // bytes of all responses

 private:
  struct Entry {
    OwnedId id;
    StoredResponse response;
    size_t num_bytes;
  };
  void drop(std::list<Entry>::iterator entry);

  size_t max_bytes_;
  size_t num_bytes_{0};
  std::list<Entry> entries_;  // most recently used first
  std::map<OwnedId, std::list<Entry>::iterator> by_id_;
  std::map<OwnedId, const std::string*> items_;  // JSON of the items in entries_
};

}  // namespace nibble::server
