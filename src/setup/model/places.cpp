#include "setup/model/places.h"

#include <system_error>

namespace nibble {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_beside_program() {
  std::error_code unknown;
  return model_folders_near(fs::read_symlink("/proc/self/exe", unknown));
}

}  // namespace

std::vector<fs::path> model_folders_near(const fs::path& file) {
  if (file.empty()) return {};
  const fs::path folder = file.parent_path();
  return {folder / "models", (folder / "../../models").lexically_normal(),
          (folder / "../share/nibble/models").lexically_normal()};
}

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
