// Splits the rest of the input by the expression in its first line. Either the expression is refused, or it
// exceeds PCRE2's limits, or its pieces add up to the text.
#include <string>
#include <string_view>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "text/pre_tokeniser.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line_end = input.find('\n');
  std::string_view text = line_end == std::string_view::npos ? "" : input.substr(line_end + 1);
  text = text.substr(0, nibble::well_formed_prefix(text));
  try {
    const nibble::PreTokeniser pre_tokeniser(input.substr(0, line_end), "fuzz");
    nibble::PreTokeniser::Pieces pieces(pre_tokeniser);
    pieces.start(text);
    std::string joined;
    while (const auto piece = pieces.next()) {
      NIBBLE_CHECK(!piece->empty());
      joined += *piece;
    }
    NIBBLE_CHECK(joined == text);
  } catch (const nibble::InputError&) {
  }
  return 0;
}
