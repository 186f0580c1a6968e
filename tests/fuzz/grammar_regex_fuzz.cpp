// Compiles the input as a regular expression. Either the expression is refused, or its token masks pass
// check_masks() along a pseudo-random text.

#include "core/errors/error.h"
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
