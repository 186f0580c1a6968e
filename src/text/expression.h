// Translates a vocabulary's split expression to PCRE2 from Oniguruma (Hugging Face's tokenizers) or
// fancy-regex (tiktoken). Constructs that do not mean the same in all three are refused.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// The split expression of o200k, for rank files: they contain none.
extern const std::string_view kO200kExpression;

// The Unicode version of \p{L} and the other categories. Text without characters newer than PCRE2's version
// has the same matches with both.
enum class Categories { kAsPcre2Knows, kOfUnicode16 };

// Throws InputError; the message begins with `origin`.
std::string to_pcre2(std::string_view expression, Categories categories, const std::string& origin);

}  // namespace nibble
