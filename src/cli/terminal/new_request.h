// Makes chats and requests to the engine from settings.
#pragma once

#include <string>
#include <vector>

#include "core/settings.h"
#include "engine/generation_request.h"
#include "harmony/chat.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// A chat without messages, with the settings of the groups kInstruction and kDate, and the form that the answer is to have. Throws
// InputError.
harmony::Chat new_chat(const Settings& settings);

// The settings of the group kSampling, without a seed.
SampleParams sample_params(const Settings& settings);

// The request stops at harmony's stop tokens and at the model's own end tokens. Stop strings are not in it: answer.h applies them. Nor is
// the constraint: answer_format.h makes it.
// Throws InputError where the prompt leaves no room for an answer in `context`.
GenerationRequest make_request(std::vector<TokenId> prompt, const Settings& settings, const Config& config,
                               const Tokenizer& tokenizer, int context);

}  // namespace nibble::cli
