// Where to look for models and a vocabulary (settings of group kPlaces).
#pragma once

#include <filesystem>
#include <vector>

#include "core/settings.h"

namespace nibble {

struct Places {
  enum class Vocabulary {
    kOfModel,  // the vocabulary next to the weights
    kBytes,    // only the 256 bytes and harmony's control tokens
    kFile,     // the file `vocabulary_file`
  };
  std::vector<std::filesystem::path> model_folders;  // searched for bundled models
  Vocabulary vocabulary{Vocabulary::kOfModel};
  std::filesystem::path vocabulary_file;
};

// Resolves only folders and vocabulary, for commands without a model. resolve() calls it for all others.
Places resolve_places(const Settings& settings);

}  // namespace nibble
