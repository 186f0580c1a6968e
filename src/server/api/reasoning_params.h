// Reads how much a request wants the model to reason, under the names that OpenAI, OpenRouter, vLLM, SGLang, llama.cpp, Anthropic and Ollama
// give it.
//
// The model always reasons; it knows low, medium and high effort. Every way to say "no reasoning" means low effort, and the answer names it
// as ignored, with "low" instead. A limit of 0 tokens is what leaves out the reasoning.
#pragma once

#include <optional>

#include "harmony/chat.h"
#include "harmony/field.h"
#include "server/api/generation_params.h"

namespace nibble::server {

// Of a chat or a response: effort, limit and switches. OpenAI's own name of the effort wins, and a switch that is off wins over all.
void read_reasoning(const harmony::Field& request, harmony::Chat& chat, GenerationParams& params);

// Others' levels become the nearest of low, medium and high, and are added to `ignored`.
harmony::ReasoningEffort read_effort(const harmony::Field& field, IgnoredFields& ignored);

// What a field that asks for no reasoning does.
void turn_off_reasoning(const harmony::Field& field, harmony::Chat& chat, IgnoredFields& ignored);

// A limit of reasoning, in tokens; nothing for -1, by which other engines say that there is none.
std::optional<int> read_reasoning_budget(const harmony::Field& field);

}  // namespace nibble::server
