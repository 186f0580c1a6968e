// The status and the error message of a function of the C API. No exception leaves guarded().
#pragma once

#include <stdexcept>
#include <string_view>

#include "library/nibble.h"

namespace nibble::library {

class Refused : public std::runtime_error {  // ends a function of the C API with this status
 public:
  Refused(nibble_status status, const char* message) : std::runtime_error(message), status_(status) {}
  nibble_status status() const { return status_; }

 private:
  nibble_status status_;
};

// Keeps the message for nibble_last_error(), on one line, and returns `status`.
nibble_status fail(nibble_status status, std::string_view message) noexcept;

// Returns the status of the exception that is being handled, and keeps its message.
nibble_status fail_with_current_exception() noexcept;

// Runs the body of a function of the C API.
template <typename Action>
nibble_status guarded(const Action& action) noexcept {
  try {
    action();
    return NIBBLE_OK;
  } catch (...) {
    return fail_with_current_exception();
  }
}

// Throws InputError that names the parameter if it is null.
void need(const void* pointer, const char* parameter);
// Returns the text. Throws InputError that names the parameter if it is null or not valid UTF-8.
std::string_view need_text(const char* text, const char* parameter);

}  // namespace nibble::library
