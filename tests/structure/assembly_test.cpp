// Tests that inline assembly occurs only in backend/cuda/ptx/. Each PTX instruction without a compiler
// intrinsic is one function there, with a name that says what it does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <istream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/folders.h"

namespace {

// Returns the numbers of lines with inline assembly. Comments may mention inline assembly.
std::vector<int> lines_with_assembly(std::istream& text) {
  static const std::regex kAssembly(R"(\b(asm|__asm|__asm__)\b)");
  std::vector<int> found;
  int number = 1;
  for (std::string line; std::getline(text, line); ++number)
    if (std::regex_search(line.substr(0, line.find("//")), kAssembly)) found.push_back(number);
  return found;
}

std::vector<int> lines_with_assembly(const std::string& text) {
  std::istringstream stream(text);
  return lines_with_assembly(stream);
}

TEST(Assembly, OfTheCudaBackendStandsInPtxAlone) {
  const std::filesystem::path root = nibble::test::source_path("src/backend/cuda");
  size_t num_files = 0, num_lines_of_ptx = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    ++num_files;
    std::ifstream text(entry.path());
    const std::string file = std::filesystem::relative(entry.path(), root).string();
    const std::vector<int> lines = lines_with_assembly(text);
    if (file.starts_with("ptx/"))
      num_lines_of_ptx += lines.size();
    else
      EXPECT_THAT(lines, testing::IsEmpty()) << file << ": give the instruction a function in ptx/";
  }
  EXPECT_GT(num_files, 30u) << "the sources were not found";
  EXPECT_GT(num_lines_of_ptx, 0u) << "nothing is recognised as assembly";
}

TEST(Assembly, IsFoundInEverySpelling) {
  for (const char* line : {"asm(\"exit;\");", "  asm volatile(\"exit;\" ::: \"memory\");",
                           "__asm__(\"exit;\");", "asm volatile(", "x = 1; asm (\"\");"})
    EXPECT_THAT(lines_with_assembly(std::string("\n") + line), testing::ElementsAre(2)) << line;
}

TEST(Assembly, IsNotFoundInCommentsAndNames) {
  EXPECT_THAT(lines_with_assembly("// asm is elsewhere\nint disasm = 0;\nint asm_lines = 0;\n"),
              testing::IsEmpty());
}

}  // namespace
