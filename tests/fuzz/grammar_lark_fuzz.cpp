// Fuzzes compile_lark(). The input is the text of a Lark grammar. If the input's size is odd, the grammar
// describes the argument "input" of a function call. A grammar must be refused by an InputError, or its token
// masks must pass check_masks() along a pseudo-random text.

#include "core/errors/error.h"
#include "grammar/languages/lark.h"
#include "tests/fuzz/grammar_masks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::grammar;
  try {
    check_masks(compile_lark({reinterpret_cast<const char*>(data), size}, size % 2 == 1 ? "input" : ""),
                size);
  } catch (const nibble::InputError&) {
  }
  return 0;
}
