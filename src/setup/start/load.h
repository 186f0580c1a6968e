#pragma once

#include <memory>

#include "backend/backend.h"
#include "core/console/progress.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Checks that memory suffices; reads, converts or makes the weights; makes the backend; checks --require.
// Throws an InputError with the figures if memory is too small. With --nodes this runs on the head: it waits
// until the other nodes have loaded their shares, and throws nodes::NodeLost if one did not join or was lost.
// `watch` gets the progress of each stage (generating, converting, reading, uploading), one after another.
std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options, const ReportProgress& watch = {});

// Runs a node other than the head until the head ends: loads its share, runs the head's steps.
void follow(const Model& model, const ResolvedSettings& setup);  // throws like load()

}  // namespace nibble
