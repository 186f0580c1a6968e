// All-reduces and barriers ("meetings") between ranks in a step. The kernels write to other ranks' memory and
// poll their own. All ranks add the same numbers in rank order, so all get the same bits, whatever other rows
// the step has. A rank that times out sets Links::failure and continues with incomplete sums.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/ranks/args.h"
#include "backend/cuda/ranks/protocol.h"

namespace nibble::cuda {

// Memory of a rank to which the other ranks write (protocol.h). N: number of ranks.
struct Inbox {
  uint64_t* words{nullptr};     // [slots, N, tagged_rows H]: float in the lower half, tag in the upper
  float* terms{nullptr};        // [N, own_room, H]: terms of the rows that this rank owns
  uint32_t* flags{nullptr};     // [N, own_room]: tag of each row in `terms`
  uint32_t* returned{nullptr};  // [row_room]: tag of each row that its owner, another rank, has returned
  uint32_t* arrivals{nullptr};  // [N]: tag of each rank's latest arrival at a meeting
};

// A sum's results in one rank's memory, for all rows of a step. Owners write the rows that they add up.
struct SumOutputs {
  float* x{nullptr};               // [T, H]
  __nv_bfloat16* normed{nullptr};  // [T, H]
};

struct Links {
  int rank{0}, num_ranks{1};
  int hidden{0}, own_room{0};  // own_room: most rows that a rank owns
  Inbox inboxes[kMaxRanks];
  SumOutputs outputs[kMaxRanks];
  const uint32_t* step{nullptr};  // this rank's step number; equal on all ranks
  uint32_t tags_per_step{0};      // the tag of message n of a step is *step * tags_per_step + n
  uint32_t* failure{nullptr};     // flag in host memory; any rank that times out sets it to 1
  unsigned long long patience_ns{0};
};

// A sum of rows first_row to first_row + num_rows - 1 of a step. Pointers in `terms` are to row 0.
struct SumArgs {
  Links links;
  Operation operation;  // operation that computed the parts; for the label
  int number;           // message number in the step, for the tag
  int slot;
  int first_row, num_rows;  // num_rows: at most kSumRows
  SumTerms terms;
};
// Computes out = x + all ranks' parts, for up to tagged_rows() rows. If the norm has weights, also stores the
// norm of `out` in this rank's SumOutputs::normed.
void sum_words(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// Like sum_words(), but for any number of rows. x and out must be SumOutputs::x. With a norm, only the rank's
// own rows of x are valid afterwards.
void sum_dealt(const LaunchContext& gpu, const SumArgs& args, Turn turn);
void sum_over_ranks(const LaunchContext& gpu, const SumArgs& args, Turn turn);

// A barrier between ranks: makes all earlier writes to this rank visible. The first rank can also send words.
struct MeetArgs {
  Links links;
  int number;
  const uint32_t* words{nullptr};  // [num_words]
  uint32_t* to[kMaxRanks]{};       // destination on each rank
  int num_words{0};
  StepExchange exchange{};  // receives the time of the meeting for the host; null: no report
};
void meet(const LaunchContext& gpu, const MeetArgs& args, Turn turn);

void prepare_sums();
void prepare_dealt_sums();

}  // namespace nibble::cuda
