// Returns the network interface through which this machine reaches `head` (which may be the machine itself),
// such as "enp1s0f0np0"; nullopt without a route. Sends no packet.
#pragma once

#include <optional>
#include <string>

#include "nodes/asio.h"

namespace nibble::nodes {

std::optional<std::string> interface_to(const tcp::endpoint& head);

}  // namespace nibble::nodes
