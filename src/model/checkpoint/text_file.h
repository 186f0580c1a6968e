// A small file of a checkpoint.
#pragma once

#include <string>

namespace nibble {

struct TextFile {
  std::string name, text;
};

}  // namespace nibble
