// The allocator of core/text/json_fwd.h must precede the first use of nlohmann::json. So no other file may
// include the library's headers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/folders.h"

namespace {

TEST(JsonIncludes, OnlyCoreIncludesTheLibrary) {
  int num_found = 0;
  for (const char* folder : {"src", "tests", "bench"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(nibble::test::source_path(folder))) {
      if (!entry.is_regular_file()) continue;
      const std::string name =
          std::filesystem::relative(entry.path(), nibble::test::source_path("")).string();
      std::ifstream text(entry.path());
      for (std::string line; std::getline(text, line);) {
        if (!line.starts_with("#include <nlohmann/")) continue;
        EXPECT_TRUE(name == "src/core/text/json.h" || name == "src/core/text/json_fwd.h")
            << name << " has " << line << ": include \"core/text/json.h\" or \"core/text/json_fwd.h\"";
        ++num_found;
      }
    }
  EXPECT_EQ(num_found, 2) << "the sources were not found";
}

TEST(JsonIncludes, MembersAreRemovedByRemoveMember) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(nibble::test::source_path("src"))) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    std::ifstream text(entry.path());
    for (std::string line; std::getline(text, line);)
      EXPECT_EQ(line.find(".erase(\""), std::string::npos) << entry.path() << ": " << line;
  }
}

TEST(JsonIncludes, OnlyJsonTextChoosesHowInvalidUtf8IsWritten) {
  int num_found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(nibble::test::source_path("src"))) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    std::ifstream text(entry.path());
    for (std::string line; std::getline(text, line);) {
      if (line.find("error_handler_t") == std::string::npos) continue;
      EXPECT_EQ(entry.path().filename(), "json_text.cpp") << entry.path() << ": " << line;
      ++num_found;
    }
  }
  EXPECT_EQ(num_found, 1) << "the sources were not found";
}

}  // namespace
