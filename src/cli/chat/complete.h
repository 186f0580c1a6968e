// Completes what was typed before Tab: names of chat commands, and files after a command that takes one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

struct ChatName {
  std::string_view name;  // without its slash
  bool takes_file;
};

struct Completion {
  std::string insert;                // text to insert at the cursor; may be empty
  std::vector<std::string> choices;  // words to list if nothing can be inserted
};

// Completes `line`, the text before the cursor, if it is a command. Folders end in '/'.
Completion complete(std::string_view line, const std::vector<ChatName>& names);

}  // namespace nibble::cli
