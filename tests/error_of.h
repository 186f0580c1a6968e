#pragma once

#include <string>

#include "core/errors/error.h"

namespace nibble {

// Returns the text of the InputError that `action` throws, or "accepted" if it throws none.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace nibble
