// Finds the files that a MODEL argument names. Looks only on this machine: nibble opens no connection.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/config.h"
#include "setup/places.h"

namespace nibble {

struct ModelSource {
  std::string name;                 // the argument, for messages
  std::filesystem::path path;       // folder or file; empty for synthetic weights
  std::optional<Config> synthetic;  // if set, weights are made for this configuration

  // Folder of the checkpoint, which also holds the vocabulary. Empty for synthetic weights.
  std::filesystem::path folder() const;
};

// Tries, in this order: "synthetic:" with a built-in name or a config.json; a path; the name of a bundled
// model; an entry of the Hugging Face cache (the snapshot that refs/main names or, without refs/main, the
// newest). Throws an InputError that lists where it looked, the known names, and how to get the files.
ModelSource find_model(const std::string& argument, const Places& places);

}  // namespace nibble
