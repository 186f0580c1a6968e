// Numbers of KV cache pages that one sequence needs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/batch.h"

namespace nibble {

// First page that a token at `position` sees through a window of `window` positions, its own included.
inline int first_reached_page(int position, int window) {
  return std::max(0, position - (window - 1)) / kPageTokens;
}
inline int num_pages_for(int num_tokens) { return (num_tokens + kPageTokens - 1) / kPageTokens; }
// Maximum number of sliding pages of a sequence if a step runs at most `chunk` of its tokens.
int max_sliding_pages(int window, int chunk);

// Smallest number of full and sliding pages with which a sequence of `num_positions` can run if it is alone
// in the KV cache and each step runs one of its tokens.
int least_pages(int num_positions, int window);
// Length of the longest sequence that fits into `num_pages` if it is alone.
int most_tokens(int num_pages, int window);
// Size of a KV cache in tokens, as vLLM states it: `context` times the number of sequences of that length
// that fit, fractions included.
int64_t kv_tokens(int num_pages, int context, int window);

}  // namespace nibble
