// From a MODEL argument to a backend that runs it: files are opened and checked first, memory is counted before it is
// taken, and only then are weights read or made.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "core/settings.h"
#include "engine/engine.h"
#include "model/config.h"
#include "model/ops.h"
#include "model/weights.h"
#include "setup/backends.h"
#include "setup/model_source.h"
#include "text/tokenizer.h"

namespace nibble {

struct Model {
  ModelSource source;
  Config config;
  std::shared_ptr<const Weights>
      weights;  // mapped and checked; null as long as synthetic weights are not made
};

// Throws InputError for whatever is wrong with the files. Costs no memory: weights are mapped, not read.
Model open_model(const std::string& argument, const Settings& settings);

// What its parts are held in: as stored, synthetic weights as the vendor releases them, or as the settings have them made.
StorageFormats formats_of(const Model& model, const Settings& settings);

// These settings without the formats of their own that they ask for; experts named --experts-activations take float.
Settings unquantised(Settings settings);

// The vocabulary beside the weights, or the one that --tokenizer names. Synthetic weights, which have nothing to say, get
// the 256 bytes and harmony's control tokens.
Tokenizer open_tokenizer(const ModelSource& source, const Settings& settings);

// How much a backend is to have room for.
struct Capacity {
  int context;        // tokens of one sequence
  int num_sequences;  // at once
};
inline constexpr int kDefaultContext{32768};
// The context that the settings ask for, within what the model was made for (InputError otherwise).
int context_of(const Config& config, const Settings& settings);

BackendOptions backend_options(const Config& config, const Settings& settings, const Capacity& capacity);
EngineOptions engine_options(const Settings& settings, const BackendOptions& options,
                             const Capacity& capacity);

size_t weight_bytes(const Config& config);  // of the checkpoint
// Of these, what has to stay in memory: a file's pages that were read once are given back, made weights are not.
size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const Settings& settings);
size_t available_bytes();  // memory that programs may still take, files in the page cache included

// Makes the weights if they are synthetic, and the backend. Throws InputError with the figures where memory lacks.
std::unique_ptr<Backend> load(const Model& model, const Settings& settings, const BackendOptions& options);

}  // namespace nibble
