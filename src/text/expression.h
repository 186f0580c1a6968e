// Translates a vocabulary's split expression to PCRE2. It was written for the engine that its maker used (Oniguruma in
// Hugging Face's tokenizers, fancy-regex in tiktoken). Only constructs that mean the same in all three are accepted; an
// expression that another engine would read differently is refused.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// The split expression of o200k, which a rank file does not contain.
extern const std::string_view kO200kExpression;

// The Unicode version by which \p{L} and other categories match. Both match alike in a text without newer characters.
enum class Categories { kAsPcre2Knows, kOfUnicode16 };

// Throws InputError whose message begins with `origin`.
std::string to_pcre2(std::string_view expression, Categories categories, const std::string& origin);

}  // namespace nibble
