// From a model that is opened to a backend that runs it.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolve.h"
#include "setup/tokenizer.h"

namespace nibble {

// Counts the memory, then reads, converts or makes the weights, makes the backend and checks --require. Throws InputError with the
// figures where memory lacks.
std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options);

}  // namespace nibble
