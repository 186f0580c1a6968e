// A model that nodes share, as the engine of the head sees it: every step runs on all of them at once.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "nodes/node_links.h"

namespace nibble::nodes {

// `own` is the backend of the head's share, with these links; `whole` the configuration of the model. Waits until all nodes have a backend.
// When it is destroyed the other nodes end.
std::unique_ptr<Backend> lead_backend(std::unique_ptr<Backend> own, std::shared_ptr<NodeLinks> links,
                                      const Config& whole);

// Runs on a follower's backend what the head says, until the head is done. Throws NodeLost.
void follow(Backend& own, NodeLinks& links, const Config& whole);

}  // namespace nibble::nodes
