// What a MODEL argument names. Files on this machine only: nibble opens no connection.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/config.h"
#include "setup/places.h"

namespace nibble {

struct ModelSource {
  std::string name;                 // as it was given, for people
  std::filesystem::path path;       // folder or file; empty for synthetic weights
  std::optional<Config> synthetic;  // of weights that are made, not read

  // Where files that belong to the checkpoint lie; nothing for a synthetic model of a built-in configuration.
  std::filesystem::path folder() const;
};

// In this order: "synthetic:" and a built-in name or a config.json; a path; a bundled name; an entry of the Hugging Face
// cache. Throws InputError that says where was looked.
ModelSource find_model(const std::string& argument, const Places& places);

}  // namespace nibble
