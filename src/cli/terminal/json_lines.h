#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Prints one line per non-blank line of stdin: the result of `answer`, or {"error": "stdin, line 2: ..."} if
// the line is not JSON or `answer` throws InputError. At the end, throws the first of these errors.
void answer_json_lines(const std::function<Json(const Json&)>& answer);

// Calls `visit` for each non-blank line. Throws an InputError that names `origin` and the line's number, if
// the line is not JSON or if `visit` throws one.
void for_each_json_line(std::string_view text, std::string_view origin,
                        const std::function<void(const Json&)>& visit);

// Throws InputError if `list` is not a JSON list of ids in the vocabulary.
std::vector<TokenId> token_ids(const Json& list, const Tokenizer& tokenizer);

// Prints one line and flushes, because its reader may be waiting. Bytes that are not UTF-8 become U+FFFD.
void print_json_line(const Json& json);

}  // namespace nibble::cli
