// A small file of a checkpoint, such as tokenizer.json.
#pragma once

#include <string>

namespace nibble {

struct TextFile {
  std::string name, text;
};

}  // namespace nibble
