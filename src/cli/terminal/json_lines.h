// JSON lines on standard input and output.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace nibble::cli {

// Every line of standard input that is not blank. Throws InputError with the number of the line: where it is not JSON, and
// around an InputError of `visit`.
void for_each_json_line(const std::function<void(const nlohmann::ordered_json&)>& visit);

// The same, of a text; `origin` names it.
void for_each_json_line(std::string_view text, std::string_view origin,
                        const std::function<void(const nlohmann::ordered_json&)>& visit);

// The ids of a list. Throws InputError where it is none, or where one of them is not of the vocabulary.
std::vector<TokenId> token_ids(const nlohmann::ordered_json& list, const Tokenizer& tokenizer);

// One line, out at once: what reads it may be waiting. Bytes that are no character become U+FFFD.
void print_json_line(const nlohmann::ordered_json& json);

}  // namespace nibble::cli
