// Numbers of KV cache pages that one sequence needs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/batch.h"

namespace nibble {

// Returns the index of the first page of a sequence to which a token at `position` attends. `window`: number
// of positions to which the token attends, its own included.
inline int first_reached_page(int position, int window) {
  return std::max(0, position - (window - 1)) / kPageTokens;
}
inline int num_pages_for(int num_tokens) { return (num_tokens + kPageTokens - 1) / kPageTokens; }
// Returns the maximum number of sliding pages of one sequence, if a step runs at most `chunk` of its tokens.
int max_sliding_pages(int window, int chunk);

// Returns the smallest number of pages, full and sliding together, with which a sequence of `num_positions`
// can run alone in the KV cache, one token per step.
int least_pages(int num_positions, int window);
// Returns the length in tokens of the longest sequence that fits into `num_pages` alone.
int most_tokens(int num_pages, int window);
// Returns the size of a KV cache in tokens, as vLLM states it: `context` times the number of sequences of
// `context` tokens that fit; the number may have a fraction.
int64_t kv_tokens(int num_pages, int context, int window);

}  // namespace nibble
