// Where to look for models and a vocabulary (settings of group kPlaces), and how to read a model.
#pragma once

#include <filesystem>
#include <vector>

#include "core/files/mapped_file.h"
#include "core/program/settings.h"

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
  FileAccess access{FileAccess::kMap};  // how to read the files of weights
};

// Returns the folders near `file` in which bundled models may lie. `file`: a program or library, in an
// installed tree or a build tree.
std::vector<std::filesystem::path> model_folders_near(const std::filesystem::path& file);

// Returns the places for commands that run no model. For commands that run one, resolve() calls this
// function.
Places resolve_places(const Settings& settings);

}  // namespace nibble
