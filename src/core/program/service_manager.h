// Reports the state of the service to systemd, or another service manager that speaks its sd_notify protocol:
// one datagram to the socket that the variable NOTIFY_SOCKET names.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace nibble {

// Sends lines such as "READY=1\nSTATUS=Serving". Returns false if that fails or no manager listens.
bool notify_service_manager(std::string_view state);

// The service manager ends this process if no "WATCHDOG=1" arrives for this time. nullopt: no watchdog.
std::optional<std::chrono::microseconds> watchdog_time();

}  // namespace nibble
