// NodeLost: another node is not there, or this one could not go on. The model can't be run any more.
#pragma once

#include <stdexcept>

namespace nibble::nodes {

class NodeLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace nibble::nodes
