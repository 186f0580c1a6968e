// Loads an opened model into a backend that runs it.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Checks that memory suffices, then reads, converts or makes the weights, makes the backend and checks
// --require. Throws InputError, with the figures, if there is not enough memory.
//
// With --nodes this runs on the head: it waits until all other nodes have joined and loaded their shares, and
// throws nodes::NodeLost if one did not join or was lost.
std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options);

// Runs a node other than the head: joins the head, loads its share and runs the steps that the head sends,
// until the head ends. Throws as load() does.
void follow(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
