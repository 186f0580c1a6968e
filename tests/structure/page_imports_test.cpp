// Enforces the direction of imports among the page's scripts: a script imports from its own room and from
// rooms of a lower level, each import names a file, and no script imports itself through others. An import of
// a type in a comment (JSDoc) counts as an import, because a reader of the script has to know that type too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/folders.h"

namespace {

struct PageRoom {
  std::string_view name;
  int level;
};
constexpr PageRoom kPageRooms[] = {
    {"base", 0},      // elements, icons, small values in the storage, colours
    {"client", 1},    // requests to the server
    {"reading", 1},   // Markdown, formulas and code as elements
    {"storage", 2},   // conversations
    {"settings", 2},  //
    {"tools", 3},     // what the model may call
    {"chat", 4},      // the pages
    {"status", 4},   {"install", 4},
};

// Files that are made when the program is built.
constexpr std::string_view kLibraries[] = {"reading/katex.js", "reading/highlight.js"};

using Texts = std::map<std::string, std::string>;  // by path in the page's folder

Texts page_scripts() {
  const std::filesystem::path root = nibble::test::source_path("src/server/page");
  Texts texts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".js") continue;
    std::ifstream file(entry.path());
    texts[std::filesystem::relative(entry.path(), root).generic_string()] = {
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  return texts;
}

// Returns the paths in the page's folder that a script imports.
std::vector<std::string> imports_of(const std::string& file, const std::string& text) {
  static const std::regex kImport("(?:from |import\\(|import )\"(\\.[^\"]*)\"");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), kImport), end; at != end; ++at)
    found.push_back(
        (std::filesystem::path(file).parent_path() / (*at)[1].str()).lexically_normal().generic_string());
  return found;
}

// Returns the row of a file's room; nullptr for files outside of rooms.
const PageRoom* room_of(const std::string& file) {
  const std::string_view name = std::string_view(file).substr(0, file.find('/'));
  const auto* row = std::find_if(std::begin(kPageRooms), std::end(kPageRooms),
                                 [&](const PageRoom& room) { return room.name == name; });
  return row == std::end(kPageRooms) ? nullptr : row;
}

// Returns one complaint for each forbidden import.
std::vector<std::string> complaints(const Texts& scripts) {
  std::vector<std::string> found;
  for (const auto& [file, text] : scripts) {
    const PageRoom* from = room_of(file);
    for (const std::string& target : imports_of(file, text)) {
      const PageRoom* to = room_of(target);
      const bool is_library = std::count(std::begin(kLibraries), std::end(kLibraries), target) > 0;
      if (!scripts.contains(target) && !is_library)
        found.push_back(file + " imports " + target + ", which is missing");
      else if (!from || !to)
        found.push_back(file + " imports " + target +
                        ": one of them lies in no room of the table in " __FILE__);
      else if (from != to && to->level >= from->level)
        found.push_back(file + " imports " + target + ", which is no room below it");
    }
  }
  return found;
}

// Returns the scripts that import themselves through others.
std::vector<std::string> circles(const Texts& scripts) {
  std::map<std::string, std::set<std::string>> reached;
  for (const auto& [file, text] : scripts)
    for (const std::string& target : imports_of(file, text)) reached[file].insert(target);
  for (const auto& [middle, ignored] : scripts) {
    const std::set<std::string> behind = reached[middle];
    for (auto& [file, targets] : reached)
      if (targets.contains(middle)) targets.insert(behind.begin(), behind.end());
  }
  std::vector<std::string> found;
  for (const auto& [file, targets] : reached)
    if (targets.contains(file)) found.push_back(file);
  return found;
}

TEST(PageImports, PointDownOnlyAndNameFiles) {
  const Texts scripts = page_scripts();
  ASSERT_GT(scripts.size(), 30u) << "the scripts were not found";
  EXPECT_THAT(complaints(scripts), testing::IsEmpty());
}

TEST(PageImports, MakeNoCircle) { EXPECT_THAT(circles(page_scripts()), testing::IsEmpty()); }

TEST(PageImports, EachRoomHasAScript) {
  const Texts scripts = page_scripts();
  for (const PageRoom& room : kPageRooms)
    EXPECT_TRUE(std::any_of(scripts.begin(), scripts.end(), [&](const auto& script) {
      return room_of(script.first) == &room;
    })) << room.name;
}

TEST(PageImports, OnesUpwardSidewaysAndOfMissingFilesAreFound) {
  const std::string_view kFiles[] = {"base/dom.js", "client/api.js", "reading/code.js", "chat/turn.js"};
  for (const char* text :
       {"import { a } from \"../chat/turn.js\";", "import { a } from \"../reading/code.js\";",
        "import { a } from \"./missing.js\";", "/** @typedef {import(\"../chat/turn.js\").Turn} Turn */",
        "const b = await import(\"../reading/code.js\");", "import \"../worker.js\";"}) {
    Texts scripts{{"client/key.js", text}};
    for (const std::string_view file : kFiles) scripts.emplace(file, "");
    EXPECT_THAT(complaints(scripts), testing::SizeIs(1)) << text;
  }
  EXPECT_THAT(complaints({{"client/key.js", "import { h } from \"../base/dom.js\";"}, {"base/dom.js", ""}}),
              testing::IsEmpty());
}

TEST(PageImports, CirclesOfSeveralScriptsAreFound) {
  EXPECT_THAT(
      circles(
          {{"a.js", "import \"./b.js\";"}, {"b.js", "import \"./c.js\";"}, {"c.js", "import \"./a.js\";"}}),
      testing::ElementsAre("a.js", "b.js", "c.js"));
  EXPECT_THAT(circles({{"a.js", "import \"./b.js\";"}, {"b.js", ""}}), testing::IsEmpty());
}

}  // namespace
