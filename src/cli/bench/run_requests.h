// Runs requests through an engine as a server would, without HTTP: for bench --replay and bench --clients.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"
#include "speculative/draft_counts.h"

namespace nibble::cli {

struct RequestsRun {
  std::vector<std::vector<TokenId>> answers;
  double seconds{0};                   // from the first request to the last answer's end
  double decode_seconds{0};            // sum of each answer's, from its first token to its last
  size_t num_tokens{0}, num_steps{0};  // of answers; a step of two answers counts for each
  speculative::DraftCounts drafts{};
};

// `num_clients` of them at once: each that ends makes room for the next. Throws InputError where one fails.
RequestsRun run_requests(Engine& engine, std::span<const GenerationRequest> requests, int num_clients);

}  // namespace nibble::cli
