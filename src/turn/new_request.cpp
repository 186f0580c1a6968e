#include "turn/new_request.h"

#include <algorithm>
#include <random>

#include "core/errors/error.h"
#include "harmony/control_tokens.h"

namespace nibble {
namespace {

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

SampleParams sample_params(const Settings& settings) {
  SampleParams params;
  params.temperature = static_cast<float>(settings.temperature);
  params.top_k = settings.top_k;
  params.top_p = static_cast<float>(settings.top_p);
  params.min_p = static_cast<float>(settings.min_p);
  params.repetition_penalty = static_cast<float>(settings.repetition_penalty);
  params.presence_penalty = static_cast<float>(settings.presence_penalty);
  params.frequency_penalty = static_cast<float>(settings.frequency_penalty);
  return params;
}

harmony::Chat new_chat(const Settings& settings, const AnswerForm& form) {
  harmony::Chat chat;
  chat.instructions = settings.system.value_or("");
  chat.reasoning_effort = *harmony::reasoning_effort_of(settings.reasoning);
  chat.date = settings.date.value_or(harmony::today());
  chat.response_format = response_format(form);
  return chat;
}

harmony::Chat new_chat(const Settings& settings) { return new_chat(settings, answer_form(settings)); }

GenerationRequest make_request(std::vector<TokenId> prompt, const Settings& settings, const Config& config,
                               const Tokenizer& tokenizer, int context) {
  if (prompt.size() >= static_cast<size_t>(context))
    throw InputError(
        "the prompt has {} tokens and the context {}, which leaves no room for an answer: shorten the "
        "prompt, or increase --context (this model: up to {})",
        prompt.size(), context, config.max_context);
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sample = sample_params(settings);
  request.sample.seed = settings.seed ? *settings.seed : random_seed();
  if (settings.logprobs) request.sample.num_logprobs = *settings.logprobs;
  request.stop.max_tokens = settings.max_tokens.value_or(0);
  request.stop.tokens = harmony::stop_tokens(tokenizer);
  request.stop.tokens.insert(request.stop.tokens.end(), config.eos.begin(), config.eos.end());
  return request;
}

}  // namespace nibble
