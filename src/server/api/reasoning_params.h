// Reads how much the model should reason, under the names that OpenAI, OpenRouter, vLLM, SGLang, llama.cpp,
// Anthropic and Ollama use.
//
// The model always reasons, with low, medium or high effort. Every way to turn reasoning off means low
// effort, and the answer lists the field as ignored, with "low" instead. Only a limit of 0 tokens leaves
// reasoning out.
#pragma once

#include <optional>

#include "harmony/chat.h"
#include "harmony/field.h"
#include "server/api/generation_params.h"

namespace nibble::server {

// For a chat or a response: effort, limit and switches. OpenAI's own field for the effort wins, and a switch
// that is off wins over everything.
void read_reasoning(const harmony::Field& request, harmony::Chat& chat, GenerationParams& params);

// Maps other APIs' levels to the nearest of low, medium and high, and adds the mapped levels to `ignored`.
harmony::ReasoningEffort read_effort(const harmony::Field& field, IgnoredFields& ignored);

// Sets low effort for a field that turns reasoning off, and adds the field to `ignored`.
void turn_off_reasoning(const harmony::Field& field, harmony::Chat& chat, IgnoredFields& ignored);

// Reads a limit of reasoning, in tokens; nullopt for -1, which means no limit in other engines.
std::optional<int> read_reasoning_budget(const harmony::Field& field);

}  // namespace nibble::server
