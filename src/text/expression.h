// Translates a vocabulary's split expression to PCRE2. The expression was written for another engine:
// Oniguruma (Hugging Face's tokenizers) or fancy-regex (tiktoken). Only constructs that mean the same in all
// three are accepted; an expression with any other construct is refused.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// The split expression of o200k, for rank files: they contain none.
extern const std::string_view kO200kExpression;

// The Unicode version of \p{L} and the other categories. Both versions give the same matches in text that has
// no character newer than PCRE2's version.
enum class Categories { kAsPcre2Knows, kOfUnicode16 };

// Throws InputError; the message begins with `origin`.
std::string to_pcre2(std::string_view expression, Categories categories, const std::string& origin);

}  // namespace nibble
