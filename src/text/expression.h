// Translates a vocabulary's split expression to PCRE2 from Oniguruma (Hugging Face's tokenizers) or
// fancy-regex (tiktoken). Constructs that differ between the three engines are refused.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// The split expression of o200k. Used for rank files, because they contain no expression.
extern const std::string_view kO200kExpression;

// The Unicode version that defines \p{L} and the other categories. If PCRE2's version has all characters of a
// text, both choices give the same matches.
enum class Categories { kAsPcre2Knows, kOfUnicode16 };

// Throws an InputError that begins with `origin`.
std::string to_pcre2(std::string_view expression, Categories categories, const std::string& origin);

}  // namespace nibble
