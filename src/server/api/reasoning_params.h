// Reads how much the model should reason, from the fields of OpenAI, OpenRouter, vLLM, SGLang, llama.cpp,
// Anthropic and Ollama. The model always reasons, with low, medium or high effort. So fields that turn
// reasoning off select low effort, and the answer reports them as ignored. Only a limit of 0 tokens prevents
// reasoning.
#pragma once

#include <optional>

#include "harmony/chat.h"
#include "harmony/field.h"
#include "server/api/generation_params.h"

namespace nibble::server {

// Reads effort, limit and switches. An off switch overrides any effort. If several fields set an effort,
// OpenAI's field counts.
void read_reasoning(const Field& request, harmony::Chat& chat, GenerationParams& params);

// Returns the nearest of low, medium and high. Adds any other level of the request to `ignored`.
harmony::ReasoningEffort read_effort(const Field& field, IgnoredFields& ignored);

// Sets low effort, because reasoning can't be off, and adds the name of `field` to `ignored`.
void turn_off_reasoning(const Field& field, harmony::Chat& chat, IgnoredFields& ignored);

// Reads a limit of reasoning in tokens. Returns nullopt for -1, which means no limit in other engines.
std::optional<int> read_reasoning_budget(const Field& field);

}  // namespace nibble::server
