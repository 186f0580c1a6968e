// JSON lines on standard input and output.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace nibble::cli {

// Answers each line of standard input that is not blank with a line. One that is not JSON, or that `answer` throws an InputError for,
// is answered {"error": "stdin, line 2: ..."}, so that answers stay in step with lines; at the end the first of these is thrown.
void answer_json_lines(const std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>& answer);

// Every line of a text that is not blank; `origin` names it. Throws InputError with the number of the line: where it is not JSON, and
// around an InputError of `visit`.
void for_each_json_line(std::string_view text, std::string_view origin,
                        const std::function<void(const nlohmann::ordered_json&)>& visit);

// The ids of a list. Throws InputError where it is none, or where one of them is not of the vocabulary.
std::vector<TokenId> token_ids(const nlohmann::ordered_json& list, const Tokenizer& tokenizer);

// One line, out at once: what reads it may be waiting. Bytes that are no character become U+FFFD.
void print_json_line(const nlohmann::ordered_json& json);

}  // namespace nibble::cli
