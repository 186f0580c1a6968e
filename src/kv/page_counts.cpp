#include "kv/page_counts.h"

namespace nibble {

// `chunk` tokens attend to `window - 1 + chunk` consecutive positions, which may begin at any slot of a page.
int max_sliding_pages(int window, int chunk) { return num_pages_for(window - 1 + chunk - 1) + 1; }

int least_pages(int num_positions, int window) {
  const int full = num_pages_for(num_positions);
  return full + std::min(full, max_sliding_pages(window, 1));
}

int most_tokens(int num_pages, int window) {
  // A sequence within the window needs two pages per kPageTokens tokens: one for full layers and one for
  // sliding layers. A longer sequence needs no more sliding pages than max_sliding_pages().
  return std::max(num_pages / 2, num_pages - max_sliding_pages(window, 1)) * kPageTokens;
}

int64_t kv_tokens(int num_pages, int context, int window) {
  return int64_t{num_pages} * context / least_pages(context, window);
}

}  // namespace nibble
