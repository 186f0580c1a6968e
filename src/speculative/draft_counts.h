// Counts drafts and accepted drafts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace nibble::speculative {

struct DraftCounts {
  uint64_t num_drafts{0};               // number of times that a sequence had drafts in a step
  uint64_t num_tokens{0};               // tokens drafted
  uint64_t num_accepted{0};             // drafted tokens that were accepted
  std::vector<uint64_t> accepted_at{};  // accepted drafts by place in a step's drafts

  void add(int num_drafted, int num_right) {
    ++num_drafts;
    num_tokens += static_cast<uint64_t>(num_drafted);
    num_accepted += static_cast<uint64_t>(num_right);
    const auto num_places = static_cast<size_t>(num_right);
    accepted_at.resize(std::max(accepted_at.size(), num_places));
    for (size_t place = 0; place < num_places; ++place) ++accepted_at[place];
  }
};

}  // namespace nibble::speculative
