// Writes the content of system and developer messages as the text that the model reads.
#pragma once

#include <string>

#include "harmony/message.h"

namespace nibble::harmony {

// `has_functions`: the developer message offers function tools. The system message then names their channel.
std::string text_of(const SystemContent& content, bool has_functions);
std::string text_of(const DeveloperContent& content);

// Whether the content offers tools in the namespace "functions".
bool has_functions(const DeveloperContent& content);

}  // namespace nibble::harmony
