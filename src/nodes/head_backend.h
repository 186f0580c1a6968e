// Backends of a model that is split over nodes. The engine runs only on the head. It sees one backend, which
// stands for all nodes.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "nodes/node_links.h"

namespace nibble::nodes {

// Waits until every node has loaded its backend; returns the engine's backend. `own`: backend that runs the
// head's share and uses `links`. `whole`: the model before the split. Destroying the result ends the other
// nodes.
std::unique_ptr<Backend> lead_backend(std::unique_ptr<Backend> own, std::shared_ptr<NodeLinks> links,
                                      const Config& whole);

// Runs the head's steps on a follower's backend until the head ends. Throws NodeLost.
void follow(Backend& own, NodeLinks& links, const Config& whole);

}  // namespace nibble::nodes
