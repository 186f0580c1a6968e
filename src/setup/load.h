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
//
// With --nodes this is the head: it waits until all others have joined and loaded their shares. Then throws nodes::NodeLost if one did not
// come, or was lost.
std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options);

// A node that follows: joins the head, loads its share, runs what the head says, and returns when that is done. Throws as load() does.
void follow(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
