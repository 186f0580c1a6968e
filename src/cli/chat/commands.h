// The commands that are said to the program in a chat, and not to the model: /help and the others.
#pragma once

#include <string>

#include "cli/chat/conversation.h"

namespace nibble::cli {

// Runs the command that `line` is, or asks the model what is none. Throws InputError.
void obey_or_ask(Conversation& conversation, const std::string& line);

}  // namespace nibble::cli
