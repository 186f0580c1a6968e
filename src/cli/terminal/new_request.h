// From settings to what the engine is asked.
#pragma once

#include <string>
#include <vector>

#include "core/settings.h"
#include "engine/generation_request.h"
#include "harmony/chat.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// A chat without messages, as the settings of the group kInstruction have it.
harmony::Chat new_chat(const Settings& settings);

// Stops where a harmony model stops and at the model's own end tokens. Stop strings are no part of it: they are the
// business of answer.h. Throws InputError where the prompt leaves no room for an answer in `context`.
GenerationRequest make_request(std::vector<TokenId> prompt, const Settings& settings, const Config& config,
                               const Tokenizer& tokenizer, int context);

}  // namespace nibble::cli
