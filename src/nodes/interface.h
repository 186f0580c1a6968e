#pragma once

#include <optional>
#include <string>

#include "nodes/asio.h"

namespace nibble::nodes {

// The network interface by which this machine reaches `head`, such as "enp1s0f0np0"; nullopt without a route.
// `head` may be an address of this machine. Sends nothing.
std::optional<std::string> interface_to(const tcp::endpoint& head);

}  // namespace nibble::nodes
