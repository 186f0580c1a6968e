// A vocabulary's split expression, written for the engine its maker used (Oniguruma in Hugging Face's tokenizers,
// fancy-regex in tiktoken), in the words of ours, PCRE2. Only what means the same in all three is let through: an
// expression that another engine would read otherwise is refused, not run.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

// The expression of o200k: what a rank file does not say.
extern const std::string_view kO200kExpression;

// The characters that \p{L} and the like stand for. The two mean the same in a text that has no character since then.
enum class Categories { kAsPcre2Knows, kOfUnicode16 };

// Throws InputError that begins with `origin`.
std::string to_pcre2(std::string_view expression, Categories categories, const std::string& origin);

}  // namespace nibble
