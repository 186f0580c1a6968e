#pragma once

#include <memory>

#include "backend/backend.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Checks that memory suffices, reads, converts or makes the weights, makes the backend, checks --require.
// Throws InputError, with the figures, if memory is too small. With --nodes, runs on the head: waits until
// the other nodes have loaded their shares, and throws nodes::NodeLost if one did not join or was lost.
std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options);

// Runs a node other than the head until the head ends: loads its share, runs the head's steps.
void follow(const Model& model, const ResolvedSettings& setup);  // throws like load()

}  // namespace nibble
