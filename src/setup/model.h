// An opened model: where it came from, its configuration, and its weights as they lie in its files.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "model/config.h"
#include "model/ops.h"
#include "model/weights.h"
#include "setup/model_source.h"
#include "setup/resolve.h"

namespace nibble {

struct Model {
  ModelSource source;
  Config config;
  // Mapped and checked, not read. Null for synthetic weights, which are made when a backend is loaded.
  std::shared_ptr<const Weights> weights;
};

// Throws InputError for whatever is wrong with the files. Costs no memory: weights are mapped, not read.
Model open_model(const std::string& argument, const Places& places);

size_t weight_bytes(const Config& config);  // of a checkpoint as it is released

// The formats that the parts of the model run in: as stored (synthetic weights: as released), or as the flags quantise them.
StorageFormats formats_of(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
