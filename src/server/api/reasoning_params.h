// How much the model should reason, under the names of OpenAI, OpenRouter, vLLM, SGLang, llama.cpp, Anthropic
// and Ollama. The model always reasons, with low, medium or high effort: fields that turn reasoning off mean
// low effort, and the answer lists them as ignored, with "low" instead. Only a limit of 0 tokens prevents it.
#pragma once

#include <optional>

#include "harmony/chat.h"
#include "harmony/field.h"
#include "server/api/generation_params.h"

namespace nibble::server {

// Reads effort, limit and switches. OpenAI's field for the effort wins; a switch that is off wins over all.
void read_reasoning(const harmony::Field& request, harmony::Chat& chat, GenerationParams& params);

// Maps other APIs' levels to the nearest of low, medium and high, and adds them to `ignored`.
harmony::ReasoningEffort read_effort(const harmony::Field& field, IgnoredFields& ignored);

// Sets low effort for `field`, and adds it to `ignored`.
void turn_off_reasoning(const harmony::Field& field, harmony::Chat& chat, IgnoredFields& ignored);

// Reads a limit of reasoning in tokens; nullopt for -1, which means no limit in other engines.
std::optional<int> read_reasoning_budget(const harmony::Field& field);

}  // namespace nibble::server
