#include "kv/page_counts.h"

#include <algorithm>

#include "model/batch.h"

namespace nibble {

int first_reached_page(int position, int window) {
  return std::max(0, position - (window - 1)) / kPageTokens;
}

int num_pages_for(int num_tokens) { return (num_tokens + kPageTokens - 1) / kPageTokens; }

// `chunk` tokens see window - 1 + chunk consecutive positions, which may begin anywhere in a page.
int max_sliding_pages(int window, int chunk) { return num_pages_for(window - 1 + chunk - 1) + 1; }

}  // namespace nibble
