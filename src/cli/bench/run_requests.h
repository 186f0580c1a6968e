// Runs requests through an engine, without HTTP.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"
#include "speculative/draft_counts.h"

namespace nibble::cli {

struct RequestsRun {
  std::vector<std::vector<TokenId>> answers;
  double seconds{0};  // time from the first request to the end of the last answer
  // times from submission to first token, in the order in which the requests end
  std::vector<double> first_token_seconds{};
  double decode_seconds{0};            // sum over all answers of the time from the first token to the last
  size_t num_tokens{0}, num_steps{0};  // sums over answers; a step for two answers counts twice
  speculative::DraftCounts drafts{};
};

// Runs all requests, at most `num_clients` at a time. Throws InputError if a request fails.
RequestsRun run_requests(Engine& engine, std::span<const GenerationRequest> requests, int num_clients);

}  // namespace nibble::cli
