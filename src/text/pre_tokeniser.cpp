#include "text/pre_tokeniser.h"

#include <cstdint>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/program/log.h"
#include "text/expression.h"
#include "text/unicode_16.h"
#include "text/utf8.h"

namespace nibble {
namespace {

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message(int error) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

void PreTokeniser::FreeCode::operator()(pcre2_code* code) const { pcre2_code_free(code); }
void PreTokeniser::Pieces::FreeData::operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }

PreTokeniser::PreTokeniser(std::string_view expression, const std::string& origin)
    : code_(compile(to_pcre2(expression, Categories::kAsPcre2Knows, origin), origin)),
      unicode_16_code_(compile(to_pcre2(expression, Categories::kOfUnicode16, origin), origin)),
      origin_(origin) {}

PreTokeniser::Code PreTokeniser::compile(const std::string& pattern, const std::string& origin) {
  int error = 0;
  PCRE2_SIZE at = 0;
  Code code(pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE,
                          &error, &at, nullptr));
  if (!code)
    throw InputError("{}: the split expression can't be compiled: {} near '{}'.", origin, message(error),
                     std::string_view(pattern).substr(at, 12));
  if (const int failed = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE); failed != 0)
    log::warn(
        "{}: PCRE2 could not compile the split expression to machine code ({}); it is interpreted, which is "
        "slow.",
        origin, message(failed));
  return code;
}

PreTokeniser::Pieces::Pieces(const PreTokeniser& pre_tokeniser)
    : pre_tokeniser_(pre_tokeniser), data_(pcre2_match_data_create(1, nullptr)) {
  if (!data_) throw std::bad_alloc();
}

void PreTokeniser::Pieces::start(std::string_view text) {
  code_ =
      (has_character_since_unicode_14(text) ? pre_tokeniser_.unicode_16_code_ : pre_tokeniser_.code_).get();
  text_ = text;
  begin_ = 0;
  match_ = {};
}

std::optional<std::string_view> PreTokeniser::Pieces::next() {
  if (begin_ == text_.size()) return std::nullopt;
  if (begin_ == match_.end) match_ = match_that_ends_after(begin_);
  const size_t end = begin_ < match_.begin ? match_.begin : match_.end;
  const std::string_view piece = text_.substr(begin_, end - begin_);
  begin_ = end;
  return piece;
}

// Finds the next match that ends after `begin`. An empty match cuts the text at its place. An empty match at
// `begin` is skipped: the search restarts after the next character, as in Hugging Face's tokenizers.
PreTokeniser::Pieces::Match PreTokeniser::Pieces::match_that_ends_after(size_t begin) const {
  size_t from = begin;
  while (from < text_.size()) {
    const std::optional<Match> match = search(from);
    if (!match) break;
    if (match->end > begin) return *match;
    from = begin + first_utf8_part(text_.substr(begin)).num_bytes;
  }
  return {text_.size(), text_.size()};
}

std::optional<PreTokeniser::Pieces::Match> PreTokeniser::Pieces::search(size_t from) const {
  const auto match = [&](uint32_t options) {
    return pcre2_match(code_, units(text_), text_.size(), from, PCRE2_NO_UTF_CHECK | options, data_.get(),
                       nullptr);
  };
  int result = match(0);
  // PCRE2's JIT code has a stack of 32 KiB, which suffices for o200k's expression with any text. If an
  // expression overflows it, the match is interpreted instead, with a stack on the heap.
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    throw InputError("{}: the split expression fails on this text: {}.", pre_tokeniser_.origin_,
                     message(result));
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data_.get());
  NIBBLE_CHECK(from <= found[0] && found[0] <= found[1], "{} {} {}", from, found[0], found[1]);
  return Match{found[0], found[1]};
}

}  // namespace nibble
