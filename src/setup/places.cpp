#include "setup/places.h"

#include <system_error>

namespace nibble {
namespace {

namespace fs = std::filesystem;

// Folders of models next to the program, in an installed tree and in a build tree.
std::vector<fs::path> folders_beside_program() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  if (unknown) return {};
  const fs::path folder = program.parent_path();
  return {folder / "models", (folder / "../../models").lexically_normal(),
          (folder / "../share/nibble/models").lexically_normal()};
}

}  // namespace

Places resolve_places(const Settings& settings) {
  Places places;
  if (settings.no_mmap) places.access = FileAccess::kRead;
  places.model_folders = settings.models ? std::vector<fs::path>{*settings.models} : folders_beside_program();
  if (!settings.tokenizer) return places;
  if (*settings.tokenizer == "bytes") {
    places.vocabulary = Places::Vocabulary::kBytes;
  } else {
    places.vocabulary = Places::Vocabulary::kFile;
    places.vocabulary_file = *settings.tokenizer;
  }
  return places;
}

}  // namespace nibble
