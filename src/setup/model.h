// An opened model: its source, configuration, and weights as they are stored in the files.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "model/config.h"
#include "model/weights.h"
#include "setup/model_source.h"
#include "setup/places.h"

namespace nibble {

struct Model {
  ModelSource source;
  Config config;
  // Views of checked files that are not read yet. Null for synthetic weights, made when a backend is loaded.
  std::shared_ptr<const Weights> weights;
};

// Opens and checks a model without reading its weights. Throws InputError for anything wrong with the files.
Model open_model(const std::string& argument, const Places& places);

size_t weight_bytes(const Config& config);  // bytes of the weights in OpenAI's format

}  // namespace nibble
