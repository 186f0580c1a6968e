// Compiles the input as a regular expression and follows a text that matches. It is refused, or its masks hold what grammar_masks.h
// says.
#include <string_view>

#include "core/error.h"
#include "grammar/languages/regex.h"
#include "tests/fuzz/grammar_masks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::grammar;
  try {
    check_masks(compile_regex({reinterpret_cast<const char*>(data), size}), size);
  } catch (const nibble::InputError&) {
  }
  return 0;
}
