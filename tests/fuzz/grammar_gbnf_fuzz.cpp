// Compiles the input as GBNF, EBNF or Lark, by its first byte, and follows a text. It is refused, or its masks hold what grammar_masks.h
// says.
#include <string_view>

#include "core/error.h"
#include "grammar/languages/gbnf.h"
#include "grammar/languages/lark.h"
#include "tests/fuzz/grammar_masks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::grammar;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'e':
        check_masks(compile_ebnf(text), size);
        break;
      case 'l':
        check_masks(compile_lark(text), size);
        break;
      default:
        check_masks(compile_gbnf(text), size);
    }
  } catch (const nibble::InputError&) {
  }
  return 0;
}
