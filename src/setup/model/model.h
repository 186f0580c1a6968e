// An opened model: its source, configuration, and weights as they are stored in the files.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/files/mapped_file.h"
#include "model/config.h"
#include "model/weights.h"
#include "setup/model/model_source.h"
#include "setup/model/places.h"

namespace nibble {

struct Model {
  ModelSource source;
  Config config;
  // The checked weights. Their files are mapped but not yet read, or, with --no-mmap, in memory. Null for
  // synthetic weights, which are generated when a backend is loaded.
  std::shared_ptr<const Weights> weights;
  // Descriptions of the adapters that are merged, and of those that requests choose (setup/plan/adapters.h).
  std::vector<std::string> adapters{}, request_adapters{};
  size_t merged_bytes{0};       // memory of `weights` for matrices that were merged when the model was opened
  MappedFiles adapter_files{};  // files of the merged adapters, which are read until loading ends
};

// Opens and checks a model. Reads its weights only if `places` says so (--no-mmap). Throws InputError for
// anything wrong with the files.
Model open_model(const std::string& argument, const Places& places);
// Like open_model(), for commands that do not run the model: never reads the weights.
Model describe_model(const std::string& argument, Places places);

size_t weight_bytes(const Config& config);  // bytes of the weights in OpenAI's format

}  // namespace nibble
