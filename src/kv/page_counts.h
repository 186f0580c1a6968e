// Page counts of one sequence.
#pragma once

namespace nibble {

// First page that a token at `position` sees through a window of `window` positions, its own included.
int first_reached_page(int position, int window);
int num_pages_for(int num_tokens);
// Maximum number of sliding pages of a sequence if a step runs at most `chunk` of its tokens.
int max_sliding_pages(int window, int chunk);

}  // namespace nibble
