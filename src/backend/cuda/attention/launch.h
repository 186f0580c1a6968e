// Chooses the grid of attend_rows() and the variant of its kernel. Needs no GPU. C++17, for device code.
#pragma once

#include <algorithm>

#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

inline constexpr int kAttendCtas{2};  // CTAs of attend_rows() per SM

// Variants of the kernel. kOne: every row has one chunk. kOneOfCta: rows have several chunks, one per CTA.
// kSeveralOfCta: several chunks per CTA. A loop over chunks would cost a row with one chunk half a
// microsecond. The code that merges chunks is two thirds of the instructions; its address decides which
// kernels of a layer stay in an SM's instruction cache (docs/decisions/0016).
enum class Chunks { kOne, kOneOfCta, kSeveralOfCta };

struct AttendLaunch {
  int ctas_of_head{1};  // CTAs that share the chunks of one row and key/value head
  Chunks chunks{Chunks::kOne};
  bool is_crowded{false};        // whether the launch has many more CTAs than fit at once
  bool joins_by_mailbox{false};  // CTAs merge the chunks together; false: the last CTA to finish does
};

// `max_chunks`: chunks of the launch's longest row. `mailbox_partials`: partial softmaxes the mailbox can
// hold.
//
// Up to kFewRows rows, the number of chunks per CTA is chosen so that all CTAs are resident. Several chunks
// in one CTA cost less than several CTAs one after another: the next chunk's pages are loaded while the
// current chunk is multiplied. With more rows, a CTA takes up to kMostChunks chunks; with a higher limit, the
// launch would wait longer for the CTA of its longest row.
//
// Up to kLastJoins chunks, the last CTA to finish merges a row's chunks. For 16,384 positions this took 7 us,
// because the next launch's weights keep memory busy and one SM gets only its share of the bandwidth. More
// chunks are merged by several CTAs: each takes one head at a time and polls that head's words of all chunks.
// Polling requires that all CTAs are resident: __launch_bounds__ and prefer_shared_memory() make room for
// kAttendCtas per SM (docs/decisions/0016).
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
