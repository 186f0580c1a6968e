// Chooses the grid of attend_rows() and the variant of its kernel. This header has no device code, so that
// tests without a GPU can include it. It is C++17, because CUDA code includes it too.
#pragma once

#include <algorithm>

#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

inline constexpr int kAttendCtas{2};  // number of CTAs of attend_rows() that always fit on an SM at once

// Variants of attend_rows()'s kernel, by the number of chunks per row and per CTA. kOne: every row has one
// chunk. kOneOfCta: rows have several chunks, and each CTA takes one. kSeveralOfCta: a CTA takes several.
// Separate variants save time: the loop over chunks costs a row with one chunk half a microsecond, and kOne
// lacks the code that merges chunks. That code is two thirds of the other variants' instructions, all of
// which must be fetched into the SM's instruction cache (docs/decisions/0016).
enum class Chunks { kOne, kOneOfCta, kSeveralOfCta };

struct AttendLaunch {
  int ctas_of_head{1};  // CTAs that share the chunks of one row and key/value head
  Chunks chunks{Chunks::kOne};
  bool is_crowded{false};        // whether the grid has at least 3 * kAttendCtas CTAs per SM
  bool joins_by_mailbox{false};  // whether several CTAs merge a row's chunks; if not, the last to finish does
};

// Returns the launch of attend_rows() for `num_rows` rows. `max_chunks`: chunks of the longest row.
// `mailbox_partials`: number of partial softmaxes that fit in the mailbox.
//
// With at most kFewRows rows, each CTA takes enough chunks that all CTAs of the launch are resident at once.
// One CTA with several chunks is faster than several CTAs one after another, because it loads the next
// chunk's pages while it multiplies the current chunk. With more rows, a CTA takes at most kMostChunks
// chunks: with a higher limit, the launch would wait longer for the CTAs of its longest row.
//
// If rows have at most kLastJoins chunks, the last CTA to finish merges a row's chunks. For the 64 chunks of
// 16,384 positions, that merge took 7 us: one SM gets only its share of the memory bandwidth while the next
// launch prefetches weights. So with more chunks several CTAs merge them: each takes one head at a time and
// polls the mailbox for that head's results of all chunks. Polling requires that all CTAs are resident:
// __launch_bounds__ and prefer_shared_memory() make room for kAttendCtas per SM (docs/decisions/0016).
inline AttendLaunch attend_launch(const Target& target, int num_rows, int num_kv_heads, int max_chunks,
                                  int mailbox_partials) {
  constexpr int kMostChunks{4}, kFewRows{2}, kLastJoins{8}, kCrowd{3};
  const int most_ctas = kAttendCtas * target.num_multiprocessors, heads = num_kv_heads * num_rows,
            least = num_rows <= kFewRows ? 1 : (max_chunks + kMostChunks - 1) / kMostChunks;
  AttendLaunch launch;
  launch.ctas_of_head = std::clamp(most_ctas / heads, least, max_chunks);
  launch.chunks = max_chunks == 1                     ? Chunks::kOne
                  : launch.ctas_of_head == max_chunks ? Chunks::kOneOfCta
                                                      : Chunks::kSeveralOfCta;
  launch.is_crowded = heads * launch.ctas_of_head >= kCrowd * most_ctas;
  launch.joins_by_mailbox = heads * launch.ctas_of_head <= most_ctas &&
                            heads * max_chunks <= mailbox_partials && max_chunks > kLastJoins;
  return launch;
}

}  // namespace nibble::cuda
