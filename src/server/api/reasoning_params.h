// Reads how much the model should reason, from the fields of OpenAI, OpenRouter, vLLM, SGLang, llama.cpp,
// Anthropic and Ollama. The model knows low, medium and high effort, but no effort that turns reasoning off.
// So a field that turns it off selects low effort, and the answer reports the field as ignored. Only a limit
// of 0 reasoning tokens prevents all reasoning.
#pragma once

#include <optional>

#include "harmony/chat.h"
#include "harmony/field.h"
#include "server/api/generation_params.h"

namespace nibble::server {

// Reads the effort, the limit, and the fields that turn reasoning on or off. A field that turns it off
// overrides any effort. If several fields set an effort, OpenAI's field counts.
void read_reasoning(const Field& request, harmony::Chat& chat, GenerationParams& params);

// Returns the nearest of low, medium and high. Adds any other level of the request to `ignored`.
harmony::ReasoningEffort read_effort(const Field& field, IgnoredFields& ignored);

// Sets low effort, because no effort turns reasoning off, and adds the name of `field` to `ignored`.
void turn_off_reasoning(const Field& field, harmony::Chat& chat, IgnoredFields& ignored);

// Reads a limit on reasoning tokens. Returns nullopt for -1, which means no limit in other engines.
std::optional<int> read_reasoning_budget(const Field& field);

}  // namespace nibble::server
