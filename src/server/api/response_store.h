// Responses that can be asked for again, or continued, by their id: the conversation up to their end, the response itself, and the items of
// its request. They are kept in memory, up to a bound; the least recently used one is dropped first.
#pragma once

#include <compare>
#include <cstddef>
#include <list>
#include <map>
#include <string>
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

// An id together with the owner of the request that stored it. Other owners do not find it.
struct OwnedId {
  std::string owner;  // RequestRecord::key_owner
  std::string id;
  auto operator<=>(const OwnedId&) const = default;
};

class ResponseStore {
 public:
  explicit ResponseStore(size_t max_bytes) : max_bytes_(max_bytes) {}

  // One larger than the bound is not stored.
  void put(OwnedId id, StoredResponse response);
  // Null if it was never stored or was dropped. Marks it as used. Valid until the next put() or erase().
  const StoredResponse* find(const OwnedId& id);
  // The item of this id, of any response of its owner; null if there is none.
  const std::string* find_item(const OwnedId& id) const;
  bool erase(const OwnedId& id);

  size_t num_bytes() const { return num_bytes_; }  // of all responses

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
  std::map<OwnedId, const std::string*> items_;  // of the entries
};

}  // namespace nibble::server
