// The API keys that clients may use. A key can have a name, which logs and metrics show; the key itself is
// never printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::server {

struct ApiKey {
  std::string key;
  std::string name;  // "alice"; for a key without a name its number: "key-2"
  // Identifies the user: keys with the same name have the same owner. Unlike "key-2" it does not change when
  // keys are reloaded. As secret as the key.
  std::string owner;
};

class ApiKeys {
 public:
  // Adds "KEY" or "NAME:KEY". `where` is the flag or the line of a file, for error messages. Throws
  // InputError.
  void add(std::string_view text, std::string_view where);
  // Adds the key on each line of a file. Skips blank lines and lines that begin with '#'. Throws InputError
  // if no key is left.
  void add_lines(std::string_view text, std::string_view file);

  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  std::vector<std::string> names() const;
  // Null for an unknown key. Takes the same time for all keys of equal length, so that timing does not reveal
  // a key.
  const ApiKey* find(std::string_view key) const;

 private:
  std::vector<ApiKey> keys_;
};

}  // namespace nibble::server
