// Makes chats and engine requests from settings.
#pragma once

#include <string>
#include <vector>

#include "core/settings.h"
#include "engine/generation_request.h"
#include "harmony/chat.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// Returns a chat without messages, with the settings of the groups kInstruction and kDate, and the JSON
// schema of the answer if one is set. Throws InputError.
harmony::Chat new_chat(const Settings& settings);

// Returns the settings of the group kSampling, which do not include the seed.
SampleParams sample_params(const Settings& settings);

// Returns a request that stops at harmony's stop tokens and at the end tokens of the model. It does not
// include stop strings, which answer.h applies, or the constraint, which answer_format.h makes. Throws
// InputError if the prompt leaves no room for an answer in `context`.
GenerationRequest make_request(std::vector<TokenId> prompt, const Settings& settings, const Config& config,
                               const Tokenizer& tokenizer, int context);

}  // namespace nibble::cli
