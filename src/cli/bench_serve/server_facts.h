// Reads the list of models of the measured server and, if it is nibble, its /status.json.
#pragma once

#include <optional>
#include <string>

#include "cli/bench_serve/endpoint.h"
#include "core/text/json.h"

namespace nibble::cli {

// Returns the first model that the server lists. Throws InputError if the request fails or the list is empty.
std::string first_model(const Endpoint& endpoint, double timeout_seconds);

// Returns nullopt if the server is not nibble or a proxy hides /status.json.
std::optional<Json> read_status(const Endpoint& endpoint, double timeout_seconds);
// Returns nullopt if `body` is not a status of nibble.
std::optional<Json> parse_status(const std::string& body);

// Returns the members of a record that describe the server; null without a status. `before`, `after`: status
// before and after the loads. Subtracts their counters to get the drafts and the steps of the loads; steps
// are counted by how the backend launched them.
Json server_json(const std::optional<Json>& before, const std::optional<Json>& after);

}  // namespace nibble::cli
