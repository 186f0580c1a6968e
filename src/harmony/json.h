// Conversations as JSON, in the form of the official library (openai-harmony: Conversation.to_json):
//   {"messages": [{"role": "user", "name": "alice", "content": "Hi",
//                  "recipient": ..., "channel": ..., "content_type": ...},
//                 {"role": "system", "content": [{"type": "system_content", "model_identity": ...}]}, ...]}
// `content` is a text or a list of one part: {"type": "text", "text": ...}, system_content {model_identity,
// knowledge_cutoff, conversation_start_date, reasoning_effort ("Low"), channel_config {valid_channels,
// channel_required}, tools} or developer_content {instructions, tools}; tools are {"NAMESPACE": {name,
// description, tools: [{name, description, parameters}]}}. As in the official library, a member that is
// absent or null is not rendered: defaults come from constructors such as SystemContent{}.
#pragma once

#include <string_view>

#include "harmony/json_text.h"
#include "harmony/message.h"
#include "harmony/parse.h"

namespace nibble::harmony {

// Throws InputError that names the path ("messages[2].role") and what is accepted there. Recurses, so the
// depth of `value` must be bounded; parse_json() bounds it.
Conversation conversation_from_json(const Json& value);
// Deleted, because text would silently convert to a JSON string: use parse_json.
Conversation conversation_from_json(std::string_view text) = delete;

// A message's text is written as a list with one part. The official library also reads this form.
Json to_json(const Message& message);
Json to_json(const ParsedMessage& parsed);  // the message, and "repairs" unless empty
Json to_json(const Conversation& conversation);

}  // namespace nibble::harmony
