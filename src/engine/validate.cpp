#include "engine/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors/error.h"
#include "text/utf8_stream.h"

namespace nibble {
namespace {

using Fault = std::optional<std::string>;

template <typename... Args>
Fault fault(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

bool is_token(TokenId token, const RequestLimits& limits) { return token >= 0 && token < limits.vocab; }

Fault find_fault_of_prompt(const GenerationRequest& request, const RequestLimits& limits) {
  if (request.prompt.empty()) return fault("the prompt is empty: it needs at least one token");
  if (request.prompt.size() >= static_cast<size_t>(limits.max_context))
    return fault(
        "the prompt has {} tokens, but prompt and answer together may have only {}: shorten the prompt, or "
        "set a larger context",
        request.prompt.size(), limits.max_context);
  for (size_t i = 0; i < request.prompt.size(); ++i)
    if (!is_token(request.prompt[i], limits))
      return fault(
          "token {} of the prompt is {}, which is not in the vocabulary (ids 0 to {}): does it come from "
          "another model's tokenizer?",
          i, request.prompt[i], limits.vocab - 1);
  return {};
}

Fault find_fault_of_sampling(const SampleParams& params, const RequestLimits& limits) {
  // The comparisons are written to reject NaN too.
  if (!(params.temperature >= 0) || std::isinf(params.temperature))
    return fault("temperature is {}: it must be 0 or more", params.temperature);
  if (params.top_k < 0) return fault("top_k is {}: it must be 1 or more, or 0 for all", params.top_k);
  if (!(params.top_p > 0 && params.top_p <= 1))
    return fault("top_p is {}: it must be above 0 and at most 1", params.top_p);
  if (!(params.min_p >= 0 && params.min_p <= 1))
    return fault("min_p is {}: it must be between 0 and 1", params.min_p);
  if (!(params.repetition_penalty > 0) || std::isinf(params.repetition_penalty))
    return fault("repetition_penalty is {}: it must be above 0 (1 means no penalty)",
                 params.repetition_penalty);
  if (!(std::abs(params.presence_penalty) <= kMaxPenalty))
    return fault("presence_penalty is {}: it must be between -{} and {}", params.presence_penalty,
                 kMaxPenalty, kMaxPenalty);
  if (!(std::abs(params.frequency_penalty) <= kMaxPenalty))
    return fault("frequency_penalty is {}: it must be between -{} and {}", params.frequency_penalty,
                 kMaxPenalty, kMaxPenalty);
  for (const auto& [token, bias] : params.logit_bias) {
    if (!is_token(token, limits))
      return fault("logit_bias names token {}, which is not in the vocabulary (ids 0 to {})", token,
                   limits.vocab - 1);
    if (!(std::abs(bias) <= kMaxLogitBias))
      return fault("logit_bias of token {} is {}: it must be between -{} and {}", token, bias, kMaxLogitBias,
                   kMaxLogitBias);
  }
  if (params.num_logprobs < -1 || params.num_logprobs > kMaxLogprobs)
    return fault("num_logprobs is {}: it must be at most {}, or -1 for none", params.num_logprobs,
                 kMaxLogprobs);
  return {};
}

Fault find_fault_of_prompt_logprobs(int num_logprobs) {
  if (num_logprobs >= -1 && num_logprobs <= kMaxLogprobs) return {};
  return fault("prompt_logprobs is {}: it must be at most {}, or -1 for none", num_logprobs, kMaxLogprobs);
}

Fault find_fault_of_stop(const StopParams& stop, const RequestLimits& limits) {
  if (stop.max_tokens < 0)
    return fault("max_tokens is {}: it must be 1 or more, or 0 for no limit but the context",
                 stop.max_tokens);
  if (stop.min_tokens < 0 || (stop.max_tokens > 0 && stop.min_tokens > stop.max_tokens))
    return fault("min_tokens is {}: it must be 0 or more, and at most max_tokens", stop.min_tokens);
  for (const TokenId token : stop.tokens)
    if (!is_token(token, limits))
      return fault("stop token {} is not in the vocabulary (ids 0 to {})", token, limits.vocab - 1);
  if (stop.strings.size() > kMaxStopStrings)
    return fault("{} stop strings: at most {} are accepted", stop.strings.size(), kMaxStopStrings);
  for (size_t i = 0; i < stop.strings.size(); ++i) {
    if (stop.strings[i].empty()) return fault("stop string {} is empty: leave it out", i);
    Utf8Stream utf8;  // replaces invalid bytes, because such bytes could match half of a character
    std::string read = utf8.push(stop.strings[i]);
    read += utf8.finish();
    if (read != stop.strings[i]) return fault("stop string {} is not valid UTF-8", i);
  }
  return {};
}

Fault find_fault_of_bans(const GenerationRequest& request, const RequestLimits& limits) {
  const Bans& bans = request.bans;
  for (const auto& run : bans.runs) {
    if (run.empty()) return fault("a banned token sequence is empty");
    for (const TokenId token : run)
      if (!is_token(token, limits))
        return fault("a banned token sequence has token {}, which is not in the vocabulary (ids 0 to {})",
                     token, limits.vocab - 1);
  }
  if (!bans.allowed) return {};
  // whether the token may be chosen at the answer's first position, which has the most bans
  const auto is_left = [&](TokenId token) {
    if (std::ranges::find(bans.runs, std::vector{token}) != bans.runs.end()) return false;
    const auto& stops = request.stop.tokens;
    return request.stop.min_tokens == 0 || std::ranges::find(stops, token) == stops.end();
  };
  for (const TokenId token : *bans.allowed)
    if (!is_token(token, limits))
      return fault("allowed token {} is not in the vocabulary (ids 0 to {})", token, limits.vocab - 1);
  if (std::ranges::none_of(*bans.allowed, is_left))
    return fault("no token can be chosen: all {} allowed tokens are banned", bans.allowed->size());
  return {};
}

Fault find_fault_of_memory(const GenerationRequest& request, const RequestLimits& limits) {
  const SchedulerOptions& cache = limits.scheduler;
  const auto num_prompt_tokens = static_cast<int>(request.prompt.size());
  // Without max_tokens the answer may use all room that is left, but at least one token must fit.
  const int num_output_tokens = std::max(1, max_output_tokens(request, limits));
  const int needed = needed_pages(num_prompt_tokens, num_output_tokens, cache.window);
  if (needed > cache.num_pages)
    return fault(
        "{} tokens of prompt and up to {} of answer need {} pages of the KV cache, which has {}: shorten the "
        "prompt, lower max_tokens, or give the KV cache more memory",
        num_prompt_tokens, num_output_tokens, needed, cache.num_pages);
  return {};
}

}  // namespace

RequestLimits limits_of(const Config& config, const EngineOptions& options) {
  if (options.max_batch_tokens < 1)
    throw InputError("max_batch_tokens is {}: a step needs at least 1 row", options.max_batch_tokens);
  if (options.max_sequences < 1)
    throw InputError("max_sequences is {}: it must be 1 or more", options.max_sequences);
  if (options.max_context < 0 || options.max_context > config.max_context)
    throw InputError("the context is {} tokens: it must be 1 to {} (the model's limit), or 0 for that limit",
                     options.max_context, config.max_context);
  if (options.num_kv_caches < 1)
    throw InputError("num_kv_caches is {}: it must be 1 or more", options.num_kv_caches);
  if (options.num_pages < 2)
    throw InputError(
        "the KV cache has {} pages: it needs one for full and one for sliding-window layers, or more",
        options.num_pages);
  return {.vocab = config.vocab,
          .max_context = options.max_context > 0 ? options.max_context : config.max_context,
          .scheduler = {.max_batch_tokens = options.max_batch_tokens,
                        .max_shared_rows = options.max_shared_rows,
                        .max_sequences = options.max_sequences,
                        .num_kv_caches = options.num_kv_caches,
                        .num_pages = options.num_pages,
                        .window = config.window,
                        .prefix_cache = options.prefix_cache}};
}

int max_output_tokens(const GenerationRequest& request, const RequestLimits& limits) {
  const auto num_prompt_tokens = static_cast<int>(request.prompt.size());
  const int context_room = limits.max_context - num_prompt_tokens;
  if (request.stop.max_tokens > 0) return std::min(request.stop.max_tokens, context_room);
  // The last token of an answer is never fed back, so it needs no room in the cache.
  return std::min(context_room,
                  most_tokens(limits.scheduler.num_pages, limits.scheduler.window) + 1 - num_prompt_tokens);
}

std::optional<std::string> find_fault(const GenerationRequest& request, const RequestLimits& limits) {
  if (Fault found = find_fault_of_prompt(request, limits)) return found;
  if (Fault found = find_fault_of_sampling(request.sample, limits)) return found;
  if (Fault found = find_fault_of_stop(request.stop, limits)) return found;
  if (Fault found = find_fault_of_bans(request, limits)) return found;
  if (Fault found = find_fault_of_prompt_logprobs(request.prompt_logprobs)) return found;
  return find_fault_of_memory(request, limits);
}

}  // namespace nibble
