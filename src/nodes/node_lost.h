// NodeLost: another node is not there, or this one could not go on. The model can't be run any more.
#pragma once

#include "backend/backend.h"

namespace nibble::nodes {

class NodeLost : public BackendLost {
 public:
  using BackendLost::BackendLost;
};

}  // namespace nibble::nodes
