// Chat commands, such as /help, that the program runs instead of sending the line to the model.
#pragma once

#include <string>
#include <vector>

#include "cli/chat/complete.h"
#include "cli/chat/conversation.h"

namespace nibble::cli {

// Returns the names of the commands, for completion.
std::vector<ChatName> chat_names();

// Runs `line` if it is a command, otherwise sends it to the model. Throws InputError.
void obey_or_ask(Conversation& conversation, const std::string& line);

}  // namespace nibble::cli
