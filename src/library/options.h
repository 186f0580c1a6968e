// nibble_options: names and values, checked when they are set, applied to settings later.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/program/settings.h"
#include "library/nibble.h"

struct nibble_options {
  std::vector<std::pair<const nibble::Setting*, std::string>> given{};
  nibble_progress progress{nullptr};
  void* progress_data{nullptr};
};

namespace nibble::library {

// Returns the setting of this name. Throws InputError if the library has none.
const Setting& find_option(std::string_view name);
// Like find_option(), for options of a session. Throws InputError for an option of the model.
const Setting& find_session_option(std::string_view name);

// Applies all options to `settings`, in their order. `options` may be null.
void apply_to_model(const nibble_options* options, Settings& settings);
void apply_to_session(const nibble_options* options,
                      Settings& settings);  // throws like find_session_option()

}  // namespace nibble::library
