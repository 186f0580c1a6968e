// Makes chats and engine requests from settings.
#pragma once

#include <vector>

#include "core/program/settings.h"
#include "engine/generation_request.h"
#include "harmony/chat.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "turn/answer_format.h"

namespace nibble {

// Makes a chat without messages. Takes the instructions, the reasoning effort and the date from the settings,
// and the JSON schema from the form.
harmony::Chat new_chat(const Settings& settings, const AnswerForm& form);
harmony::Chat new_chat(const Settings& settings);  // uses the settings' own form; throws InputError

// Converts the settings of the group kSampling, except the seed.
SampleParams sample_params(const Settings& settings);

// Makes a request with harmony's stop tokens and the model's end tokens; callers add stop strings
// (answer_reader.h) and a constraint (answer_format.h). Throws InputError if the prompt leaves no room for an
// answer.
GenerationRequest make_request(std::vector<TokenId> prompt, const Settings& settings, const Config& config,
                               const Tokenizer& tokenizer, int context);

}  // namespace nibble
