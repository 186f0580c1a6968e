#pragma once

#include <memory>

#include "backend/backend.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Checks that memory suffices; reads, converts or makes the weights; makes the backend; checks --require.
// Throws an InputError with the figures if memory is too small. With --nodes, only the head calls load(),
// which then waits until the other nodes have loaded their shares; throws nodes::NodeLost if one is missing
// or lost.
std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options);

// Runs a node other than the head until the head ends: loads its share, runs the head's steps.
void follow(const Model& model, const ResolvedSettings& setup);  // throws like load()

}  // namespace nibble
