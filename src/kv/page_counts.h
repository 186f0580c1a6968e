// Page counts of one sequence.
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

// Returns the pages, of both kinds, with which a sequence of `num_positions` can run to its end if it is
// alone in a KV cache, in small steps if need be.
int least_pages(int num_positions, int window);
// Returns the number of positions of the longest sequence that fits into `num_pages` alone.
int most_tokens(int num_pages, int window);
// Returns the size of a KV cache in tokens, as vLLM states it: those of the sequences of `context` tokens
// that fit at the same time, where part of a sequence counts as that part of its tokens.
int64_t kv_tokens(int num_pages, int context, int window);

}  // namespace nibble
