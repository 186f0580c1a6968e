// Finds direct uses of fmt::print() to stderr. fmt::print() throws if stderr cannot be written, and an
// uncaught exception ends the program. core/console/output.h has the replacement.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/folders.h"

namespace {

TEST(Stderr, IsWrittenByWhatDoesNotThrow) {
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(nibble::test::source_path("src"))) {
    if (!entry.is_regular_file()) continue;
    ++num_files;
    std::ifstream text(entry.path());
    int number = 1;
    for (std::string line; std::getline(text, line); ++number)
      EXPECT_EQ(line.find("fmt::print(stderr"), std::string::npos) << entry.path() << ", line " << number;
  }
  EXPECT_GT(num_files, 30u) << "the sources were not found";
}

}  // namespace
