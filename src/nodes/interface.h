// The network interface that leads to the head.
#pragma once

#include <optional>
#include <string>

#include "nodes/asio.h"

namespace nibble::nodes {

// The name of the interface by which this machine reaches the address, which may be one of its own: "enp1s0f0np0". Nothing where there is no
// way. Sends nothing.
std::optional<std::string> interface_to(const tcp::endpoint& head);

}  // namespace nibble::nodes
