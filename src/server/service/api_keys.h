// The API keys that clients may use. A key can have a name, by which logs and metrics call its user; a key itself is never printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::server {

struct ApiKey {
  std::string key;
  std::string name;  // "alice"; of a key without a name "key-2", by its place
  // Tells users apart: two keys of one name have the same owner. It does not change when keys are reloaded, unlike "key-2", and is as
  // secret as the key.
  std::string owner;
};

class ApiKeys {
 public:
  // Adds "KEY" or "NAME:KEY". `where` is the flag or the line of a file, for errors. Throws InputError.
  void add(std::string_view text, std::string_view where);
  // Adds the key on each line of a file. Blank lines and lines that begin with '#' are comments. Throws InputError if no key is left.
  void add_lines(std::string_view text, std::string_view file);

  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  std::vector<std::string> names() const;
  // Null for an unknown key. Takes the same time for every key of the same length, so that timing does not reveal one.
  const ApiKey* find(std::string_view key) const;

 private:
  std::vector<ApiKey> keys_;
};

}  // namespace nibble::server
