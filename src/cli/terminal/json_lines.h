#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Prints an answer per non-blank line of stdin. If a line is not JSON or `answer` throws InputError, prints
// {"error": "stdin, line 2: ..."}, so that answers stay aligned; throws the first error at the end.
void answer_json_lines(const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& answer);

// Visits non-blank lines. Adds `origin` and the line number to errors: InputError of `visit`, or not JSON.
void for_each_json_line(std::string_view text, std::string_view origin,
                        const std::function<void(const nlohmann::ordered_json&)>& visit);

// Throws InputError if `list` is not a JSON list of ids in the vocabulary.
std::vector<TokenId> token_ids(const nlohmann::ordered_json& list, const Tokenizer& tokenizer);

// Prints one line and flushes, because the reader may be waiting. Bytes that are not UTF-8 become U+FFFD.
void print_json_line(const nlohmann::ordered_json& json);

}  // namespace nibble::cli
