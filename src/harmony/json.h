// Conversations as JSON, in the form of the official library (openai-harmony: Conversation.to_json):
//
//   {"messages": [{"role": "user", "name": "alice", "content": "Hi", "recipient": ..., "channel": ..., "content_type": ...},
//                 {"role": "system", "content": [{"type": "system_content", "model_identity": ...}]}, ...]}
//
// `content` is a text or a list of one part: {"type": "text", "text": ...}, system_content {model_identity,
// knowledge_cutoff, conversation_start_date, reasoning_effort ("Low"), channel_config {valid_channels,
// channel_required}, tools} or developer_content {instructions, tools}; tools are {"NAMESPACE": {name, description,
// tools: [{name, description, parameters}]}}. A member that is absent or null is not rendered, as in the official library,
// whose defaults come from its constructors; SystemContent{} has the same.
#pragma once

#include <string_view>

#include "harmony/json_text.h"
#include "harmony/message.h"
#include "harmony/parse.h"

namespace nibble::harmony {

// Throws InputError that names the place, "messages[2].role", and says what is accepted there. The value's depth must be
// bounded, as parse_json sees to, because the reader recurses.
Conversation conversation_from_json(const Json& value);
Conversation conversation_from_json(std::string_view text) =
    delete;  // would convert the text to a JSON string; use parse_json

// Writes the form that conversation_from_json reads. A text becomes a list of one part, which the official library reads too.
Json to_json(const Message& message);
Json to_json(const ParsedMessage& parsed);  // the message, and "repairs" if there are any
Json to_json(const Conversation& conversation);

}  // namespace nibble::harmony
