// Lists in the text of a flag: "qkv,o". CLI11's own lists drop empty items without a word and do not reach NIBBLE_* variables.
#pragma once

#include <algorithm>
#include <string_view>

namespace nibble {

// Removes the first item from `list`, and the separator behind it.
inline std::string_view take_item(std::string_view& list, char separator) {
  const std::string_view item = list.substr(0, list.find(separator));
  list.remove_prefix(std::min(list.size(), item.size() + 1));
  return item;
}

}  // namespace nibble
