// Chooses the grid of attend_rows() and the variant of its kernel. Needs no GPU. C++17, for device code.
#pragma once

#include <algorithm>

#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

inline constexpr int kAttendCtas{2};  // CTAs of attend_rows() per SM

// Variants of the kernel. kOne: every row has one chunk. kOneOfCta: rows have several chunks, one per CTA.
// kSeveralOfCta: several chunks per CTA. A loop over chunks costs a one-chunk row half a microsecond. The
// code that merges chunks is two thirds of the instructions, and its address decides which of a layer's
// kernels stay in an SM's instruction cache (docs/decisions/0016).
enum class Chunks { kOne, kOneOfCta, kSeveralOfCta };

struct AttendLaunch {
  int ctas_of_head{1};  // CTAs that share a row's chunks of a key/value head
  Chunks chunks{Chunks::kOne};
  bool is_crowded{false};        // many more CTAs than fit at once
  bool joins_by_mailbox{false};  // CTAs merge the chunks together; false: the last CTA to finish merges them
};

// `max_chunks`: of the launch's longest row. `mailbox_partials`: partial softmaxes that fit in the mailbox.
//
// In a launch of more than kFewRows rows, a CTA takes up to kMostChunks chunks: it would otherwise wait for
// its longest row. For up to kFewRows rows, the number is chosen so that all CTAs are resident. Several
// chunks in one CTA cost less than several CTAs one after another: the next chunk's pages are loaded while
// the current chunk's exponentials and values are multiplied.
//
// Up to kLastJoins chunks, the last CTA to finish merges them. For the chunks of 16,384 positions this took 7
// us, because the next launch's weights keep memory busy, and one SM gets only its share of the bandwidth.
// More chunks are merged by several CTAs, each of which takes one head at a time and polls that head's words
// of all chunks. For that all CTAs must be resident: __launch_bounds__ and prefer_shared_memory() make room
// for kAttendCtas per SM (docs/decisions/0016).
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
