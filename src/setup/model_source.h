// Finds the files that a MODEL argument names, on this machine only: nibble opens no connection.
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
  std::optional<Config> synthetic;  // set: weights are made for this configuration

  // The checkpoint's folder, where its vocabulary lies. Empty for synthetic weights.
  std::filesystem::path folder() const;
};

// Tries, in this order: "synthetic:" with a built-in name or a config.json; a path; a bundled name; an entry of the Hugging Face
// cache, of which it takes the snapshot that refs/main names or, without refs/main, the newest. Throws InputError that lists the
// places where it looked, the names that there are, and how to get the files.
ModelSource find_model(const std::string& argument, const Places& places);

}  // namespace nibble
