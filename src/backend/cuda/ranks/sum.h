// All-reduces and barriers ("meetings") of ranks in a step. Kernels write to the other ranks' memory and poll
// their own. The terms of a row are always added in rank order. So all ranks get the same bits, and the bits
// do not depend on the step's other rows. A rank that times out sets Links::failure and continues with
// incomplete sums.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/ranks/args.h"
#include "backend/cuda/ranks/protocol.h"

namespace nibble::cuda {

// A rank's memory to which the other ranks write (protocol.h). N: number of ranks.
struct Inbox {
  uint64_t* words{nullptr};     // [slots, N, tagged_rows H]: float in the lower half, tag in the upper
  float* terms{nullptr};        // [N, own_room, H]: the ranks' terms of rows that this rank owns
  uint32_t* flags{nullptr};     // [N, own_room]: tag of the sum to which each row in `terms` belongs
  uint32_t* returned{nullptr};  // [rows of a sum]: tag of the last sum that the row's owner has returned
  uint32_t* arrivals{nullptr};  // [N]: for each rank, the tag of the last barrier (meet()) that it reached
};

// The arrays in which one rank gets the results of sums, for all rows of a step. The owner of a row writes
// the row's results to the SumOutputs of all ranks.
struct SumOutputs {
  float* x{nullptr};               // [T, H]: the residual stream
  __nv_bfloat16* normed{nullptr};  // [T, H]: norm(x)
};

struct Links {
  int rank{0}, num_ranks{1};
  int hidden{0}, own_room{0};  // own_room: largest number of rows that a rank owns in a sum
  Inbox inboxes[kMaxRanks];
  SumOutputs outputs[kMaxRanks];
  const uint32_t* step{nullptr};  // points to the number of the current step, which is equal on all ranks
  uint32_t tags_per_step{0};      // messages per step; message n has the tag (*step) * tags_per_step + n
  uint32_t* failure{nullptr};     // flag in host memory; any rank that times out sets it to 1
  unsigned long long patience_ns{0};
};

// A launch of sums over all ranks, one sum for each of `num_rows` rows of a step, from row `first_row` on.
// Pointers in `terms` point to the step's row 0.
struct SumArgs {
  Links links;
  Operation operation;  // operation that computed the parts, for profiles
  int number;           // number of this sum's messages in the step (StepNumbers); the tag follows from it
  int slot;
  int first_row, num_rows;  // num_rows: at most kSumRows
  SumTerms terms;
};
// Computes out = x + all ranks' parts, for up to tagged_rows() rows. If the norm has weights, also stores the
// norm of `out` in this rank's SumOutputs::normed.
void sum_words(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// Like sum_words(), but for any number of rows. x and out must both be SumOutputs::x. With a norm, only the
// rows that this rank owns are valid in x afterwards.
void sum_dealt(const LaunchContext& gpu, const SumArgs& args, Turn turn);
void sum_over_ranks(const LaunchContext& gpu, const SumArgs& args, Turn turn);

// A barrier of all ranks. After it, each rank sees all earlier writes to its memory. The first rank can also
// send words to all ranks.
struct MeetArgs {
  Links links;
  int number;
  const uint32_t* words{nullptr};  // [num_words]
  uint32_t* to[kMaxRanks]{};       // to[r]: destination of the words on rank r, [num_words]
  int num_words{0};
  StepExchange exchange{};  // on the first rank: gets the time at which the barrier ended; null: not reported
};
void meet(const LaunchContext& gpu, const MeetArgs& args, Turn turn);

void prepare_sums();
void prepare_dealt_sums();

}  // namespace nibble::cuda
