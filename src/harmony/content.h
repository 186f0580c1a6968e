// What system and developer messages say, as the text that the model reads.
#pragma once

#include <string>

#include "harmony/message.h"

namespace nibble::harmony {

// `has_functions`: a developer message of the conversation offers function tools, whose channel is then stated.
std::string text_of(const SystemContent& content, bool has_functions);
std::string text_of(const DeveloperContent& content);

// Whether the content offers tools in the namespace "functions".
bool has_functions(const DeveloperContent& content);

}  // namespace nibble::harmony
