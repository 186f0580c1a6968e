// Reads and writes JSON lines.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Prints an answer for each line of standard input that is not blank. A line that is not JSON, or for which `answer` throws InputError,
// is answered {"error": "stdin, line 2: ..."}, so that answers stay in step with lines. The first of these errors is thrown at the end.
void answer_json_lines(const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& answer);

// Calls `visit` for each line of `text` that is not blank. Throws InputError with `origin` and the line's number where it is not JSON,
// or `visit` throws InputError.
void for_each_json_line(std::string_view text, std::string_view origin,
                        const std::function<void(const nlohmann::ordered_json&)>& visit);

// Reads a list of token ids. Throws InputError where it is no list, or an id is outside the vocabulary.
std::vector<TokenId> token_ids(const nlohmann::ordered_json& list, const Tokenizer& tokenizer);

// Prints one line and flushes it, since its reader may be waiting. Bytes that are not UTF-8 become U+FFFD.
void print_json_line(const nlohmann::ordered_json& json);

}  // namespace nibble::cli
