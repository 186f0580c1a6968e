// NodeLost: a node was lost or never joined, or this node failed. The model can't run any longer.
#pragma once

#include "backend/backend.h"

namespace nibble::nodes {

class NodeLost : public BackendLost {
 public:
  using BackendLost::BackendLost;
};

}  // namespace nibble::nodes
