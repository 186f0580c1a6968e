// The API keys of clients. Logs and metrics show a key's name; the key itself is never printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::server {

struct ApiKey {
  std::string key;
  std::string name;  // "alice"; "key-" and the number of the key if the key has no name
  // Identifies the user of the key: the name given to the key, else the key itself. Stays the same after a
  // reload. Secret.
  std::string owner;
};

class ApiKeys {
 public:
  // Adds "KEY" or "NAME:KEY". `where`: flag or line of a file, for messages. Throws InputError.
  void add(std::string_view text, std::string_view where);
  // Adds a key per line; skips blank lines and '#' lines. Throws InputError if no key is left.
  void add_lines(std::string_view text, std::string_view file);

  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  std::vector<std::string> names() const;
  // Returns null for an unknown key. Takes the same time for keys of equal length, so that timing reveals no
  // key.
  const ApiKey* find(std::string_view key) const;

 private:
  std::vector<ApiKey> keys_;
};

}  // namespace nibble::server
