// Counts pages of a sequence: how many hold its positions, and which of them a window reaches.
#pragma once

namespace nibble {

// Returns the first page that a token at `position` sees. Its window has `window` positions, including its
// own.
int first_reached_page(int position, int window);
// Returns the number of pages for the first `num_tokens` positions of a sequence.
int num_pages_for(int num_tokens);
// Returns the largest number of sliding pages that a sequence holds if at most `chunk` tokens are run at
// once.
int max_sliding_pages(int window, int chunk);

}  // namespace nibble
