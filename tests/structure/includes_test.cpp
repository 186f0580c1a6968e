// Enforces the direction of includes: a file includes its own folder and lower floors, never a higher floor
// or a neighbour. Some folders are divided into rooms, which have levels of their own. No two stems (a stem
// is the files of one name) include each other, directly or along a chain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/folders.h"

namespace {

struct Folder {
  std::string_view path;
  int floor;
};
// "backend" holds the interface that backends implement. It is one floor below all backends, one of which,
// "reference", is outside of src/backend/.
constexpr Folder kFolders[] = {
    {"core", 0},                                                                //
    {"formats", 1},     {"text", 1},                                            //
    {"grammar", 2},     {"model", 2},                                           //
    {"harmony", 3},     {"kv", 3},          {"backend", 3},                     //
    {"reference", 4},   {"backend/cpu", 4}, {"backend/cuda", 4}, {"nodes", 4},  //
    {"speculative", 5},                                                         //
    {"engine", 6},                                                              //
    {"setup", 7},       {"turn", 7},                                            //
    {"server", 8},      {"library", 8},                                         //
    {"cli", 9},
};

// Rooms divide a folder of the table above. A file includes its own room and rooms of a lower level.
// Forms of a path:
//
//   "cli/bench/"   a folder: one room
//   "cli/*"        the files directly in cli/: each name is a room of its own (nodes.h and nodes.cpp)
//   "cli/command"  the files of one name
//
// A file belongs to the most specific row that matches. A folder without rows is one room.
struct Room {
  std::string_view path;
  int level;
};
constexpr Room kRooms[] = {
    // Commands share the rooms below them and do not include each other, except bench, which contains `bench
    // serve`.
    {"cli/standard_streams", 0},
    {"cli/start_line/", 0},
    {"cli/command", 1},
    {"cli/version", 1},
    {"cli/help", 1},  //
    {"cli/terminal/", 2},
    {"cli/measure/", 2},
    {"cli/nodes", 2},
    {"cli/options", 2},  //
    {"cli/*", 3},
    {"cli/bench_serve/", 3},
    {"cli/chat/", 4},  // asks a server with the client of bench serve
    {"cli/convert/", 3},
    {"cli/diff/", 3},
    {"cli/eval/", 3},
    {"cli/predict/", 3},
    {"cli/profile/", 3},
    {"cli/tune/", 3},
    {"cli/verify/", 3},  //
    {"cli/bench/", 4},   //
    // cli/serve is above the rooms of cli/* because it includes two of them: config_file and serve_facts.
    {"cli/serve", 4},
    {"cli/program", 5},
    {"cli/main", 6},
    // Each operation has a room for its kernels. Below the kernels is the code that they share: instructions,
    // layouts of weights and activations, the chip, and pipelines. An operation may include the args.h of
    // another operation (arguments and launch functions), but not its kernels. The exception is route/, whose
    // device code the experts' kernels use. Above the kernels is the host code of a step.
    {"backend/cuda/ptx/", 0},
    {"backend/cuda/layout/", 1},
    {"backend/cuda/cuda_options", 2},
    {"backend/cuda/input/", 2},
    {"backend/cuda/chip/", 3},
    {"backend/cuda/pipeline/", 4},  //
    {"backend/cuda/attention/args", 5},
    {"backend/cuda/ranks/args", 5},
    {"backend/cuda/route/args", 5},
    {"backend/cuda/sample/args", 5},
    {"backend/cuda/dense/args", 6},
    {"backend/cuda/experts/args", 6},  //
    {"backend/cuda/route/", 7},
    {"backend/cuda/attention/", 8},
    {"backend/cuda/dense/", 8},
    {"backend/cuda/experts/", 8},
    {"backend/cuda/sample/", 8},  //
    {"backend/cuda/kernel_table", 9},
    {"backend/cuda/plan", 10},
    {"backend/cuda/recipe", 11},
    {"backend/cuda/step/", 12},
    {"backend/cuda/memory/", 13},  //
    {"backend/cuda/operations", 14},
    {"backend/cuda/draft/", 14},
    {"backend/cuda/ranks/", 14},
    {"backend/cuda/forward", 15},
    {"backend/cuda/traced_values", 15},
    {"backend/cuda/predict/", 4},
    {"backend/cuda/prepare", 15},
    {"backend/cuda/limits", 15},
    {"backend/cuda/ranks/connection", 16},
    {"backend/cuda/rank", 16},
    {"backend/cuda/verify/", 16},
    {"backend/cuda/backend_of_ranks", 17},
    {"backend/cuda/cuda_backend", 18},
    {"backend/cuda/tune/", 19},  //
    // A compiled grammar is a program whose steps run automata. The automata use the kinds of characters in
    // vocabulary/. languages/ compiles grammars to programs; matching/ runs programs to find the masks of
    // allowed tokens. These two rooms do not include each other.
    {"grammar/limits", 0},       //
    {"grammar/vocabulary/", 1},  //
    {"grammar/automata/", 2},    //
    {"grammar/program/", 3},     //
    {"grammar/languages/", 4},   //
    {"grammar/matching/", 4},    //
    // The folder itself defines a model: config, weights, operations. The rooms for checkpoint files, draft
    // heads, golden data and shares of several machines do not include each other.
    {"model/", 0},  //
    {"model/checkpoint/", 1},
    {"model/draft_head/", 1},
    {"model/golden/", 1},
    {"model/shares/", 1},  //
    // http/ knows no API, and api/ knows no engine. server/routes is above endpoints/, because its table
    // names every endpoint.
    {"server/http/", 0},
    {"server/page/", 0},
    {"server/api/", 1},
    {"server/service/", 2},  //
    {"server/endpoints/", 3},
    {"server/absent", 3},
    {"server/exit_codes", 0},
    {"server/signals", 1},
    {"server/routes", 4},
    {"server/server", 5},  //
    // The levels follow the order of a start. Level 0 describes the machine, lists the backends, and finds
    // and opens the model's files. Level 1 holds the resolved values of flags. Level 2 derives the plan from
    // settings and model: the share of a node, formats, memory, capacity. Level 3 loads the backend, then the
    // drafters, one of which may be a second model.
    {"setup/backend/", 0},
    {"setup/machine/", 0},
    {"setup/model/", 0},     //
    {"setup/settings/", 1},  //
    {"setup/plan/", 2},      //
    {"setup/start/", 3},     //
    {"setup/commit", 0},     // generated
    // errors/ is above console/, because a failed check writes to the console. program/ (logs and settings)
    // needs text/ and errors/. files/ (mapped files) needs nearly all other rooms.
    {"core/numbers/", 0},
    {"core/system/", 0},
    {"core/tokens/", 0},   //
    {"core/console/", 1},  //
    {"core/errors/", 2},   //
    {"core/tensors/", 3},
    {"core/text/", 3},
    {"core/threads/", 3},  //
    {"core/memory/", 4},
    {"core/program/", 4},  //
    {"core/files/", 5},
};

bool lies_in(std::string_view file, std::string_view folder) {
  return file.starts_with(folder) && file.size() > folder.size() && file[folder.size()] == '/';
}

// Returns the folder with the longest path that contains `file` (such as "backend/cpu/isa/avx2.cpp").
std::optional<Folder> folder_of(std::string_view file) {
  std::optional<Folder> best;
  for (const Folder& folder : kFolders)
    if (lies_in(file, folder.path) && (!best || folder.path.size() > best->path.size())) best = folder;
  return best;
}

bool has_rooms(std::string_view folder) {
  return std::any_of(std::begin(kRooms), std::end(kRooms),
                     [&](const Room& room) { return folder_of(room.path)->path == folder; });
}

std::string_view stem_of(std::string_view file) { return file.substr(0, file.rfind('.')); }

// Returns the room of `file`. A room is named by its folder or, for a file outside the room folders, by its
// stem.
std::optional<Room> room_of(std::string_view file) {
  const std::string_view stem = stem_of(file);
  const std::string_view folder = file.substr(0, file.rfind('/'));
  std::optional<Room> best;
  for (const Room& room : kRooms) {
    const std::string_view parent = room.path.substr(0, room.path.rfind('/'));
    if (room.path == stem) return room;
    if (room.path.ends_with("/*") && folder == parent) best = {stem, room.level};
    if (room.path.ends_with('/') && lies_in(file, parent)) best = room;
  }
  return best;
}

// Returns the complaint about an include inside one folder; an empty text if the include is allowed.
std::string complaint_about_rooms(std::string_view file, std::string_view target) {
  const std::optional<Room> from = room_of(file), to = room_of(target);
  if (!from || !to) return std::string(from ? target : file) + ": lies in no room of the table in " __FILE__;
  if (from->path == to->path || to->level < from->level) return {};
  return std::string(file) + ": \"" + std::string(target) + "\" is no room below " + std::string(from->path);
}

// Returns the files that `text` includes in quotes.
std::vector<std::string> targets_of(std::istream& text) {
  std::vector<std::string> targets;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("#include \"")) targets.push_back(line.substr(10, line.find('"', 10) - 10));
  return targets;
}

// Returns one complaint for each forbidden include of `file`.
std::vector<std::string> complaints(const std::string& file, std::istream& text) {
  std::vector<std::string> found;
  const std::optional<Folder> from = folder_of(file);
  if (!from) return {file + ": lies in no folder of the table in " __FILE__};
  for (const std::string& target : targets_of(text)) {
    const std::optional<Folder> to = folder_of(target);
    if (!to) {
      found.push_back(file + ": \"" + target + "\" does not start at a folder of src/");
    } else if (to->path == from->path) {
      if (!has_rooms(from->path)) continue;
      if (std::string complaint = complaint_about_rooms(file, target); !complaint.empty())
        found.push_back(std::move(complaint));
    } else if (to->floor >= from->floor) {
      found.push_back(file + ": \"" + target + "\" is not below " + std::string(from->path));
    }
  }
  return found;
}

std::vector<std::string> complaints(const std::string& file, const std::string& text) {
  std::istringstream stream(text);
  return complaints(file, stream);
}

// Calls visit(file, text) for each file of src/.
template <typename Visit>
void for_each_source(Visit visit) {
  const std::filesystem::path root = nibble::test::source_path("src");
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream text(entry.path());
    visit(std::filesystem::relative(entry.path(), root).string(), text);
    ++num_files;
  }
  EXPECT_GT(num_files, 30u) << "the sources were not found";
}

TEST(Includes, PointDownOnly) {
  for_each_source([](const std::string& file, std::istream& text) {
    EXPECT_THAT(complaints(file, text), testing::IsEmpty());
  });
}

TEST(Includes, UpwardOnesAreFound) {
  EXPECT_THAT(complaints("core/tensors/view.h", "#include \"engine/engine.h\"\n"), testing::SizeIs(1));
}

TEST(Includes, SidewaysOnesAreFound) {
  EXPECT_THAT(complaints("text/tokenizer.h", "#include \"formats/container.h\"\n"), testing::SizeIs(1));
  EXPECT_THAT(complaints("backend/cpu/forward.cpp", "#include \"reference/forward.h\"\n"),
              testing::SizeIs(1));
}

TEST(Includes, RelativeOnesAreFound) {
  EXPECT_THAT(complaints("text/tokenizer.h", "#include \"utf8_stream.h\"\n"), testing::SizeIs(1));
  EXPECT_THAT(complaints("text/tokenizer.h", "#include \"../core/tensors/view.h\"\n"), testing::SizeIs(1));
}

TEST(Includes, ABackendSeesItsContractAndTheFloorsBelow) {
  EXPECT_THAT(
      complaints("backend/cpu/isa/avx2.cpp",
                 "#include <vector>\n#include \"backend/backend.h\"\n#include \"core/tensors/view.h\"\n"
                 "#include \"backend/cpu/isa/kernels.h\"\n"),
      testing::IsEmpty());
}

TEST(Includes, AFolderThatIsNotInTheTableIsFound) {
  EXPECT_THAT(complaints("utils/misc.h", ""), testing::SizeIs(1));
}

std::vector<std::string> complaints_about(const std::string& file, const std::string& target) {
  return complaints(file, "#include \"" + target + "\"\n");
}

TEST(Rooms, ACommandSeesItsOwnFilesAndWhatCommandsShare) {
  for (const char* target : {"cli/eval/golden.h", "cli/terminal/terminal.h", "cli/measure/speed_tests.h",
                             "cli/command.h", "cli/version.h", "setup/start/load.h"})
    EXPECT_THAT(complaints_about("cli/eval/eval.cpp", target), testing::IsEmpty()) << target;
  EXPECT_THAT(complaints_about("cli/serve_facts.cpp", "cli/serve_facts.h"), testing::IsEmpty());
  EXPECT_THAT(complaints_about("cli/inspect.cpp", "cli/measure/kernels_json.h"), testing::IsEmpty());
  EXPECT_THAT(complaints_about("cli/program.cpp", "cli/bench/bench.h"), testing::IsEmpty());
}

TEST(Rooms, ACommandThatSeesAnotherOneIsFound) {
  for (const char* target : {"cli/chat/chat.h", "cli/run.h", "cli/main.h", "cli/bench/bench.h"})
    EXPECT_THAT(complaints_about("cli/eval/eval.cpp", target), testing::SizeIs(1)) << target;
  EXPECT_THAT(complaints_about("cli/profile/profile.cpp", "cli/run.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("cli/profile/profile.cpp", "cli/eval/logits.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("cli/bench_serve/client.cpp", "cli/bench/report.h"), testing::SizeIs(1));
}

TEST(Rooms, ASharedRoomThatSeesACommandOrANeighbourIsFound) {
  for (const char* target : {"cli/run.h", "cli/eval/logits.h", "cli/measure/speed_tests.h"})
    EXPECT_THAT(complaints_about("cli/terminal/answer.cpp", target), testing::SizeIs(1)) << target;
  EXPECT_THAT(complaints_about("cli/command.h", "cli/terminal/terminal.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("cli/command.h", "cli/version.h"), testing::SizeIs(1));
}

TEST(Rooms, TheServersPointFromRoutesToEndpointsToServiceToApiToHttp) {
  EXPECT_THAT(complaints_about("server/http/connection.cpp", "server/api/reply.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("server/service/service.h", "server/server.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("server/api/error.h", "server/http/http_error.h"), testing::IsEmpty());
  EXPECT_THAT(complaints_about("server/routes.cpp", "server/endpoints/endpoints.h"), testing::IsEmpty());
}

TEST(Rooms, TheGrammarsPointFromLanguagesAndMatchingToProgramToAutomataToVocabulary) {
  for (const char* target : {"grammar/matching/matcher.h", "grammar/languages/regex.h"})
    EXPECT_THAT(complaints_about("grammar/program/builder.cpp", target), testing::SizeIs(1)) << target;
  EXPECT_THAT(complaints_about("grammar/languages/regex.cpp", "grammar/matching/matcher.h"),
              testing::SizeIs(1));
  EXPECT_THAT(complaints_about("grammar/matching/mask.cpp", "grammar/languages/source.h"),
              testing::SizeIs(1));
  EXPECT_THAT(complaints_about("grammar/vocabulary/content.h", "grammar/automata/decoder.h"),
              testing::SizeIs(1));
  EXPECT_THAT(complaints_about("grammar/limits.h", "grammar/program/grammar.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("grammar/languages/schema/numbers.cpp", "grammar/program/builder.h"),
              testing::IsEmpty());
}

TEST(Rooms, TheSetupsPointFromStartToPlanToSettingsToTheModel) {
  for (const char* target : {"setup/start/resolve.h", "setup/start/load.h", "setup/plan/memory.h"})
    EXPECT_THAT(complaints_about("setup/settings/resolved_settings.h", target), testing::SizeIs(1)) << target;
  EXPECT_THAT(complaints_about("setup/model/model.h", "setup/settings/resolved_settings.h"),
              testing::SizeIs(1));
  EXPECT_THAT(complaints_about("setup/plan/memory.cpp", "setup/start/resolve.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("setup/model/model.cpp", "setup/machine/machine.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("setup/start/load.cpp", "setup/plan/memory.h"), testing::IsEmpty());
  EXPECT_THAT(complaints_about("setup/start/resolve.cpp", "setup/settings/speculation.h"),
              testing::IsEmpty());
}

TEST(Rooms, TheCoresPointFromFilesToMemoryAndProgramToTextToErrors) {
  for (const char* target : {"core/memory/with_memory.h", "core/program/log.h", "core/files/new_file.h"})
    EXPECT_THAT(complaints_about("core/text/json.cpp", target), testing::SizeIs(1)) << target;
  EXPECT_THAT(complaints_about("core/errors/check.h", "core/text/bytes_text.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("core/numbers/bf16.h", "core/errors/check.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("core/program/log.cpp", "core/memory/with_memory.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("core/files/mapped_file.cpp", "core/threads/thread_pool.h"),
              testing::IsEmpty());
}

TEST(Rooms, AFileOfCoreOrSetupOutsideTheRoomsIsFound) {
  EXPECT_THAT(complaints_about("core/things.cpp", "core/things.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("setup/start/load.cpp", "setup/things.h"), testing::SizeIs(1));
}

TEST(Rooms, KernelsOfAnOperationSeeTheArgumentsOfOthersAndNotTheirKernels) {
  for (const char* target : {"backend/cuda/route/args.h", "backend/cuda/route/choice.cuh",
                             "backend/cuda/pipeline/stream.cuh", "backend/cuda/ptx/mma.cuh"})
    EXPECT_THAT(complaints_about("backend/cuda/experts/stream.cu", target), testing::IsEmpty()) << target;
  for (const char* target : {"backend/cuda/dense/items.cuh", "backend/cuda/attention/page.cuh",
                             "backend/cuda/kernel_table.h", "backend/cuda/step/step_input.h"})
    EXPECT_THAT(complaints_about("backend/cuda/experts/stream.cu", target), testing::SizeIs(1)) << target;
  EXPECT_THAT(complaints_about("backend/cuda/pipeline/inputs.cuh", "backend/cuda/dense/args.h"),
              testing::SizeIs(1));
  EXPECT_THAT(complaints_about("backend/cuda/layout/strips.h", "backend/cuda/chip/target.h"),
              testing::SizeIs(1));
}

TEST(Rooms, AFolderThatIsNoRoomOfTheTableIsFound) {
  EXPECT_THAT(complaints_about("cli/drawer/things.cpp", "cli/drawer/things.h"), testing::SizeIs(1));
  EXPECT_THAT(complaints_about("cli/run.cpp", "cli/drawer/things.h"), testing::SizeIs(1));
}

// Maps each stem to the stems that its files include.
using Stems = std::map<std::string, std::set<std::string>>;

void add_includes(Stems& stems, const std::string& file, std::istream& text) {
  const std::string stem(stem_of(file));
  for (const std::string& target : targets_of(text))
    if (stem_of(target) != stem) stems[stem].emplace(stem_of(target));
}

// Follows includes depth first. An include of a stem that is on the current path closes a circle.
class CircleSearch {
 public:
  explicit CircleSearch(const Stems& stems) : stems_(stems) {
    for (const auto& [stem, included] : stems_) follow(stem);
  }
  const std::vector<std::string>& circles() const { return circles_; }  // "a -> b -> a"

 private:
  void follow(const std::string& stem) {
    if (done_.contains(stem)) return;
    if (const auto start = std::find(path_.begin(), path_.end(), stem); start != path_.end()) {
      std::string circle;
      for (auto step = start; step != path_.end(); ++step) circle += *step + " -> ";
      circles_.push_back(circle + stem);
      return;
    }
    path_.push_back(stem);
    if (const auto found = stems_.find(stem); found != stems_.end())
      for (const std::string& included : found->second) follow(included);
    path_.pop_back();
    done_.insert(stem);
  }

  const Stems& stems_;
  std::vector<std::string> path_, circles_;
  std::set<std::string> done_;  // stems for which all circles have been found
};

std::vector<std::string> circles_of(const std::map<std::string, std::string>& texts) {
  Stems stems;
  for (const auto& [file, text] : texts) {
    std::istringstream stream(text);
    add_includes(stems, file, stream);
  }
  return CircleSearch(stems).circles();
}

TEST(Circles, NoStemsIncludeEachOther) {
  Stems stems;
  for_each_source([&](const std::string& file, std::istream& text) { add_includes(stems, file, text); });
  EXPECT_THAT(CircleSearch(stems).circles(), testing::IsEmpty());
}

TEST(Circles, AreFoundDirectlyAndAlongAChain) {
  const std::string b = "#include \"kv/b.h\"\n", c = "#include <set>\n#include \"kv/c.cuh\"\n",
                    a = "#include \"kv/a.h\"\n";
  EXPECT_THAT(circles_of({{"kv/a.h", b}, {"kv/b.cpp", a}}), testing::ElementsAre("kv/a -> kv/b -> kv/a"));
  EXPECT_THAT(circles_of({{"kv/a.cpp", b}, {"kv/b.h", c}, {"kv/c.cu", a}}),
              testing::ElementsAre("kv/a -> kv/b -> kv/c -> kv/a"));
}

TEST(Circles, AHeaderThatSeveralStemsIncludeIsNone) {
  const std::string b = "#include \"kv/b.h\"\n", a_and_b = "#include \"kv/a.h\"\n" + b;
  EXPECT_THAT(circles_of({{"kv/a.cpp", a_and_b}, {"kv/a.h", b}, {"kv/c.cpp", a_and_b}}), testing::IsEmpty());
}

}  // namespace
