// Holds the direction of the includes: a file sees its own folder and lower floors, never a higher one or a neighbour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/folders.h"

namespace {

struct Folder {
  std::string_view path;
  int floor;
  int room{0};  // a room of a folder sees the folder's rooms of lower numbers
};
// The contract of backends lies a floor below those who fulfil it, so that the reference can fulfil it too.
constexpr Folder kFolders[] = {
    {"core", 0},  //
    {"formats", 1},
    {"text", 1},  //
    {"harmony", 2},
    {"model", 2},  //
    {"kv", 3},
    {"backend", 3},  //
    {"reference", 4},
    {"backend/cpu", 4},
    {"backend/cuda", 4},         //
    {"speculative", 5},          //
    {"engine", 6},               //
    {"setup", 7},                //
    {"server/http", 8, 1},       //
    {"server/api", 8, 2},        //
    {"server/service", 8, 3},    //
    {"server/endpoints", 8, 4},  //
    {"server", 8, 5},            //
    {"cli", 9},
};

// The longest folder of the table that `file` ("backend/cpu/isa/avx2.cpp") lies in.
std::optional<Folder> folder_of(std::string_view file) {
  std::optional<Folder> best;
  for (const Folder& folder : kFolders) {
    const bool inside =
        file.starts_with(folder.path) && file.size() > folder.path.size() && file[folder.path.size()] == '/';
    if (inside && (!best || folder.path.size() > best->path.size())) best = folder;
  }
  return best;
}

// "server" of "server/http": rooms of different folders do not see each other.
std::string_view house_of(const Folder& folder) { return folder.path.substr(0, folder.path.find('/')); }

bool sees(const Folder& from, const Folder& to) {
  if (from.path == to.path || to.floor < from.floor) return true;
  return to.floor == from.floor && house_of(from) == house_of(to) && to.room < from.room;
}

// One complaint for each include that `file` may not have; empty if all is well.
std::vector<std::string> complaints(const std::string& file, std::istream& text) {
  std::vector<std::string> found;
  const std::optional<Folder> from = folder_of(file);
  if (!from) return {file + ": lies in no folder of the table in " __FILE__};
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("#include \"")) continue;
    const std::string target = line.substr(10, line.find('"', 10) - 10);
    const std::optional<Folder> to = folder_of(target);
    if (!to)
      found.push_back(file + ": \"" + target + "\" does not start at a folder of src/");
    else if (!sees(*from, *to))
      found.push_back(file + ": \"" + target + "\" is not below " + std::string(from->path));
  }
  return found;
}

std::vector<std::string> complaints(const std::string& file, const std::string& text) {
  std::istringstream stream(text);
  return complaints(file, stream);
}

TEST(Includes, PointDownOnly) {
  const std::filesystem::path root = nibble::test::source_path("src");
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream text(entry.path());
    EXPECT_THAT(complaints(std::filesystem::relative(entry.path(), root).string(), text), testing::IsEmpty());
    ++num_files;
  }
  EXPECT_GT(num_files, 30u) << "the sources were not found";
}

TEST(Includes, UpwardOnesAreFound) {
  EXPECT_THAT(complaints("core/view.h", "#include \"engine/engine.h\"\n"), testing::SizeIs(1));
}

TEST(Includes, SidewaysOnesAreFound) {
  EXPECT_THAT(complaints("text/tokenizer.h", "#include \"formats/container.h\"\n"), testing::SizeIs(1));
  EXPECT_THAT(complaints("backend/cpu/forward.cpp", "#include \"reference/forward.h\"\n"),
              testing::SizeIs(1));
}

TEST(Includes, ARoomSeesLowerRoomsOfItsFolderOnly) {
  EXPECT_THAT(complaints("server/http/connection.cpp", "#include \"server/api/reply.h\"\n"),
              testing::SizeIs(1));
  EXPECT_THAT(complaints("server/service/service.h", "#include \"server/server.h\"\n"), testing::SizeIs(1));
  EXPECT_THAT(complaints("server/api/error.h", "#include \"server/http/http_error.h\"\n"),
              testing::IsEmpty());
  EXPECT_THAT(complaints("server/routes.cpp", "#include \"server/endpoints/endpoints.h\"\n"),
              testing::IsEmpty());
}

TEST(Includes, RelativeOnesAreFound) {
  EXPECT_THAT(complaints("text/tokenizer.h", "#include \"utf8_stream.h\"\n"), testing::SizeIs(1));
  EXPECT_THAT(complaints("text/tokenizer.h", "#include \"../core/view.h\"\n"), testing::SizeIs(1));
}

TEST(Includes, ABackendSeesItsContractAndTheFloorsBelow) {
  EXPECT_THAT(complaints("backend/cpu/isa/avx2.cpp",
                         "#include <vector>\n#include \"backend/backend.h\"\n#include \"core/view.h\"\n"
                         "#include \"backend/cpu/isa/kernels.h\"\n"),
              testing::IsEmpty());
}

TEST(Includes, AFolderThatIsNotInTheTableIsFound) {
  EXPECT_THAT(complaints("utils/misc.h", ""), testing::SizeIs(1));
}

}  // namespace
