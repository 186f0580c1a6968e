// Finds the files of a MODEL argument, on this machine only: nibble opens no connection.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "setup/model/places.h"

namespace nibble {

struct ModelSource {
  std::string name;                 // the argument, for messages
  std::filesystem::path path;       // folder or file; empty for synthetic weights
  std::optional<Config> synthetic;  // configuration of synthetic weights; nullopt: the weights are in files

  // Returns the folder of the weights, where the vocabulary is. Empty for synthetic weights.
  std::filesystem::path folder() const;
};

// Returns the names and folders of the bundled models that are present on this machine.
std::vector<std::pair<std::string, std::filesystem::path>> bundled_models(const Places& places);

// Tries "synthetic:" with a built-in name or a config.json; a path; a bundled model; the stores of other
// programs (setup/model/model_stores.h). If all fail, throws an InputError with the places tried, the known
// names and advice.
ModelSource find_model(const std::string& argument, const Places& places);

}  // namespace nibble
