// Compiles the input after its first byte: as EBNF if that byte is an e, else as GBNF. Either the grammar is
// refused, or its token masks pass check_masks() along a pseudo-random text.
#include <string_view>

#include "core/errors/error.h"
#include "grammar/languages/gbnf.h"
#include "tests/fuzz/grammar_masks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::grammar;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    check_masks(data[0] == 'e' ? compile_ebnf(text) : compile_gbnf(text), size);
  } catch (const nibble::InputError&) {
  }
  return 0;
}
