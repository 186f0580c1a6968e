#include "tests/folders.h"

namespace nibble::test {
namespace {

std::string join(std::string folder, std::string_view below) {
  return below.empty() ? folder : folder.append("/").append(below);
}

}  // namespace

std::string source_path(std::string_view below) { return join(NIBBLE_SOURCE_DIR, below); }
std::string build_path(std::string_view below) { return join(NIBBLE_BUILD_DIR, below); }

}  // namespace nibble::test
