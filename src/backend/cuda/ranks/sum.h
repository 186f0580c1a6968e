// All-reduce and barriers ("meetings") between ranks in a step, by kernels that write to the other ranks'
// memory and poll their own: the sums after attention and after the experts, and the barriers.
//
// Every rank adds up the same numbers in the same order, by rank: so all ranks get the same bits, and a row's
// bits do not depend on the other rows of the step. No wait is unlimited: a rank that times out sets
// Links::failure and continues with incomplete sums.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/step_exchange.h"
#include "backend/cuda/ranks/args.h"
#include "backend/cuda/ranks/protocol.h"

namespace nibble::cuda {

// Where the other ranks write, in the memory of the reading rank (protocol.h).
struct Inbox {
  uint64_t* words{nullptr};  // [slots, N, tagged_rows H]: a float in the lower half, a tag above
  float* terms{nullptr};     // [N, own_room, H]: terms of the rows that this rank owns
  uint32_t* flags{nullptr};  // [N, own_room]: tags of the terms in `terms`
  // [row_room]: tags of the rows that other ranks own and have sent to `outputs`.
  uint32_t* returned{nullptr};
  uint32_t* arrivals{nullptr};  // [N]: tags
};

// The results of a sum on one rank, for all rows of a step: the residual stream and its norm. Owners of rows
// write them on every rank.
struct SumOutputs {
  float* x{nullptr};               // [T, H]
  __nv_bfloat16* normed{nullptr};  // [T, H]
};

struct Links {
  int rank{0}, num_ranks{1};
  int hidden{0}, own_room{0};  // own_room: maximum rows that a rank owns
  Inbox inboxes[kMaxRanks];
  SumOutputs outputs[kMaxRanks];
  const uint32_t* step{nullptr};  // this rank's step number; all ranks count the same steps
  uint32_t tags_per_step{0};      // the tag of message n of a step is *step * tags_per_step + n
  // A word in host memory, shared by all ranks: a rank that times out sets it to 1.
  uint32_t* failure{nullptr};
  unsigned long long patience_ns{0};
};

// The sum over rows [first_row, first_row + num_rows) of a step. Pointers of the terms are to the step's
// first row.
struct SumArgs {
  Links links;
  Operation operation;  // that computed the parts
  int number;           // message number in the step, for the tag
  int slot;
  int first_row, num_rows;  // up to kSumRows
  SumTerms terms;
};
// Computes out = x + the sum over ranks of the sum of their parts. If the norm has weights, also stores the
// norm of `out` in this rank's SumOutputs::normed. For up to tagged_rows() rows.
void sum_words(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// All-reduces any number of rows like sum_words(). x and out are SumOutputs::x, in which a rank has valid
// values only for the rows it owns. Without a norm, every rank has all rows of x afterwards.
void sum_dealt(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// Calls sum_words() or sum_dealt(), depending on the number of rows.
void sum_over_ranks(const LaunchContext& gpu, const SumArgs& args, Turn turn);

// A barrier between ranks: each rank reports its arrival to all others and waits for theirs. After it,
// everything that earlier launches of any rank wrote to this rank's memory is visible. The first rank may
// send some words along.
struct MeetArgs {
  Links links;
  int number;
  const uint32_t* words{nullptr};  // [num_words]
  uint32_t* to[kMaxRanks]{};       // destination on each rank
  int num_words{0};
  StepExchange exchange{};  // where the time of the meeting is reported to the host; null: not reported
};
void meet(const LaunchContext& gpu, const MeetArgs& args, Turn turn);

void prepare_sums();
void prepare_dealt_sums();

}  // namespace nibble::cuda
