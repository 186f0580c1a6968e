// Chat commands, such as /help, that the program runs instead of sending the line to the model.
#pragma once

#include <string>

#include "cli/chat/conversation.h"

namespace nibble::cli {

// Runs `line` if it is a command, otherwise sends it to the model. Throws InputError.
void obey_or_ask(Conversation& conversation, const std::string& line);

}  // namespace nibble::cli
