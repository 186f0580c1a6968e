// Tells systemd, or another service manager with its protocol (sd_notify), how a service is: one datagram to the socket that the variable
// NOTIFY_SOCKET names.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace nibble {

// Sends lines such as "READY=1\nSTATUS=Serving". Does nothing where no service manager listens: then false comes back.
bool notify_service_manager(std::string_view state);

// The service manager ends this process if "WATCHDOG=1" does not come within this time (WatchdogSec=). Nothing: it does not watch.
std::optional<std::chrono::microseconds> watchdog_time();

}  // namespace nibble
