// Writes the content of system and developer messages as the text that the model reads.
#pragma once

#include <string>

#include "harmony/message.h"

namespace nibble::harmony {

// `has_functions`: whether a developer message of the conversation offers function tools; the system message
// then names the channel for their calls.
std::string text_of(const SystemContent& content, bool has_functions);
std::string text_of(const DeveloperContent& content);

// Returns true if the content offers tools in the namespace "functions".
bool has_functions(const DeveloperContent& content);

}  // namespace nibble::harmony
