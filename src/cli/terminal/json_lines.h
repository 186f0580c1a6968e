// Reads and writes JSON lines.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Prints one answer for each line of standard input that is not blank. For a line that is not JSON, or for
// which `answer` throws InputError, prints {"error": "stdin, line 2: ..."}, so that answers stay in step with
// lines. Throws the first of these errors at the end.
void answer_json_lines(const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& answer);

// Calls `visit` for each line of `text` that is not blank. If a line is not JSON, or `visit` throws
// InputError, throws an InputError with `origin` and the line number.
void for_each_json_line(std::string_view text, std::string_view origin,
                        const std::function<void(const nlohmann::ordered_json&)>& visit);

// Converts a JSON list to token ids. Throws InputError if it is not a list, or if an
// id is not in the vocabulary.
std::vector<TokenId> token_ids(const nlohmann::ordered_json& list, const Tokenizer& tokenizer);

// Prints one line and flushes it, because the reader may be waiting for it. Bytes that
// are not UTF-8 become U+FFFD.
void print_json_line(const nlohmann::ordered_json& json);

}  // namespace nibble::cli
