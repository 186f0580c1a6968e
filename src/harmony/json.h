// Conversations as JSON, in the form of the official library (openai-harmony: Conversation.to_json):
//
//   {"messages": [{"role": "user", "name": "alice", "content": "Hi", "recipient": ..., "channel": ..., "content_type": ...},
//                 {"role": "system", "content": [{"type": "system_content", "model_identity": ...}]}, ...]}
//
// `content` is a text or a list of one block: {"type": "text", "text": ...}, system_content {model_identity,
// knowledge_cutoff, conversation_start_date, reasoning_effort ("Low"), channel_config {valid_channels,
// channel_required}, tools} or developer_content {instructions, tools}; tools are {"NAMESPACE": {name, description,
// tools: [{name, description, parameters}]}}. What is absent or null is not rendered, as in the official library: its
// defaults are those of its constructors, and SystemContent{} has them.
#pragma once

#include <string_view>

#include "harmony/json_text.h"
#include "harmony/message.h"
#include "harmony/parse.h"

namespace nibble::harmony {

// Throws InputError that names the place, "messages[2].role", and says what is accepted there. A value must be of
// bounded depth, as parse_json gives it: what reads it recurses.
Conversation conversation_from_json(const Json& value);
Conversation conversation_from_json(std::string_view text) =
    delete;  // it would become a JSON string: see parse_json

// What conversation_from_json reads. A text is written as a list of one block, which the official library reads too.
Json to_json(const Message& message);
Json to_json(const ParsedMessage& parsed);  // the message, and "repairs" where there are any
Json to_json(const Conversation& conversation);

}  // namespace nibble::harmony
