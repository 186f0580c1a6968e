// Counts pages of a sequence: how many hold its positions, and which of them a window reaches.
#pragma once

#include <cstdint>

namespace nibble {

// Returns the first page that a token at `position` sees. Its window has `window` positions, including its
// own.
int first_reached_page(int position, int window);
// Returns the number of pages for the first `num_tokens` positions of a sequence.
int num_pages_for(int num_tokens);
// Returns the largest number of sliding pages that a sequence holds if at most `chunk` tokens are run at
// once.
int max_sliding_pages(int window, int chunk);

// Returns the pages, of both kinds, with which a sequence of `num_positions` can run to its end if it is alone in a KV
// cache, in small steps if need be.
int least_pages(int num_positions, int window);
// Returns the number of positions of the longest sequence that fits into `num_pages` alone.
int most_tokens(int num_pages, int window);
// Returns the size of a KV cache in tokens, as vLLM states it: those of the sequences of `context` tokens that fit
// at the same time, where part of a sequence counts as that part of its tokens.
int64_t kv_tokens(int num_pages, int context, int window);

}  // namespace nibble
