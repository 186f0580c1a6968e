// Counts drafts and how many were accepted.
#pragma once

#include <array>
#include <cstdint>

#include "speculative/drafter.h"

namespace nibble::speculative {

struct DraftCounts {
  uint64_t num_drafts{0};                          // (sequence, step) pairs with drafts
  uint64_t num_tokens{0};                          // tokens drafted
  uint64_t num_accepted{0};                        // of num_tokens
  std::array<uint64_t, kMaxDrafts> accepted_at{};  // by place in the draft

  void add(int num_drafted, int num_right) {
    ++num_drafts;
    num_tokens += static_cast<uint64_t>(num_drafted);
    num_accepted += static_cast<uint64_t>(num_right);
    for (size_t place = 0; place < static_cast<size_t>(num_right); ++place) ++accepted_at[place];
  }
};

}  // namespace nibble::speculative
