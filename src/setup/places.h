// The places where a command looks for models and for a vocabulary, from the settings of the group kPlaces.
#pragma once

#include <filesystem>
#include <vector>

#include "core/settings.h"

namespace nibble {

struct Places {
  enum class Vocabulary {
    kOfModel,  // the one beside the weights
    kBytes,    // the 256 bytes and harmony's control tokens
    kFile,     // vocabulary_file
  };
  std::vector<std::filesystem::path> model_folders;  // hold the bundled models
  Vocabulary vocabulary{Vocabulary::kOfModel};
  std::filesystem::path vocabulary_file;
};

// For commands that run no model; resolve() does the same for those that do.
Places resolve_places(const Settings& settings);

}  // namespace nibble
