// Commands in a chat that the program runs instead of sending the line to the model: /help and others.
#pragma once

#include <string>

#include "cli/chat/conversation.h"

namespace nibble::cli {

// If `line` is a command, runs it; otherwise sends the line to the model. Throws InputError.
void obey_or_ask(Conversation& conversation, const std::string& line);

}  // namespace nibble::cli
