// A map of limited size that keeps the most recently used values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace nibble {

template <class Key, class Value>
class RecentMap {
 public:
  explicit RecentMap(size_t max_size) : max_size_(max_size) {}

  // Returns the value of `key`, and whether it is new. Constructs a missing value from `arguments`, then
  // drops the least recently used value if the map is too large. The reference is valid until the next call.
  template <class... Arguments>
  std::pair<Value&, bool> get(const Key& key, Arguments&&... arguments) {
    const auto [at, is_new] = entries_.try_emplace(key, std::forward<Arguments>(arguments)...);
    at->second.last_use = ++num_uses_;
    if (entries_.size() > max_size_)
      entries_.erase(std::ranges::min_element(
          entries_, [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
    return {at->second.value, is_new};
  }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    template <class... Arguments>
    explicit Entry(Arguments&&... arguments) : value(std::forward<Arguments>(arguments)...) {}
    Value value;
    uint64_t last_use{0};
  };

  size_t max_size_;
  uint64_t num_uses_{0};
  std::map<Key, Entry> entries_;
};

}  // namespace nibble
