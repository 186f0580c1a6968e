#include "library/status.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "core/errors/error.h"
#include "setup/commit.h"
#include "text/utf8.h"

namespace nibble::library {
namespace {

thread_local std::string message_of_thread;
// Shown instead of message_of_thread if there was no memory to store that message; otherwise null.
thread_local const char* fixed_message{nullptr};

constexpr const char* kOutOfMemory{
    "out of memory: reduce the options context, max-sequences or max-batch-tokens"};

}  // namespace

nibble_status fail(nibble_status status, std::string_view message) noexcept {
  try {
    std::string line(message);
    std::ranges::replace_if(
        line, [](char letter) { return letter == '\n' || letter == '\r'; }, ' ');
    message_of_thread = std::move(line);
    fixed_message = nullptr;
  } catch (...) {
    fixed_message = kOutOfMemory;
  }
  return status;
}

nibble_status fail_with_current_exception() noexcept {
  try {
    throw;
  } catch (const InputError& error) {
    return fail(NIBBLE_BAD_INPUT, error.what());
  } catch (const Refused& refused) {
    return fail(refused.status(), refused.what());
  } catch (const std::bad_alloc&) {
    return fail(NIBBLE_OUT_OF_MEMORY, kOutOfMemory);
  } catch (const std::exception& error) {
    return fail(NIBBLE_FAILED, error.what());
  } catch (...) {
    return fail(NIBBLE_FAILED, "an unknown exception");
  }
}

void need(const void* pointer, const char* parameter) {
  if (!pointer) throw InputError("the argument '{}' is NULL", parameter);
}

std::string_view need_text(const char* text, const char* parameter) {
  need(text, parameter);
  const std::string_view all(text);
  const size_t valid = well_formed_prefix(all);
  if (valid != all.size())
    throw InputError("the argument '{}' is not valid UTF-8 at byte {} (0x{:02X})", parameter, valid,
                     static_cast<unsigned char>(all[valid]));
  return all;
}

}  // namespace nibble::library

const char* nibble_last_error(void) {
  using namespace nibble::library;
  return fixed_message ? fixed_message : message_of_thread.c_str();
}

const char* nibble_version(void) { return nibble::kVersion; }

const char* nibble_status_name(nibble_status code) {
  static constexpr std::pair<nibble_status, const char*> kNames[]{
      {NIBBLE_OK, "ok"},
      {NIBBLE_TIMEOUT, "timeout"},
      {NIBBLE_BAD_INPUT, "bad input"},
      {NIBBLE_FAILED, "failed"},
      {NIBBLE_OUT_OF_MEMORY, "out of memory"},
      {NIBBLE_BUSY, "busy"},
      {NIBBLE_TOO_SMALL, "too small"},
  };
  for (const auto& [status, name] : kNames)
    if (status == code) return name;
  return "unknown";
}
