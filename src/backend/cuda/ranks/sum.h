// All-reduce and barriers ("meetings") between ranks in a step, by kernels that write to the other ranks'
// memory and poll their own: the sums after attention and after the experts, and the barriers.
//
// Every rank adds up the same numbers in the same order, by rank: all have the same bits, in every step and
// with any number of rows. No wait is unlimited: a rank that times out sets Links::failure and continues with
// what it has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/ranks/protocol.h"
#include "backend/cuda/step/step_exchange.h"

namespace nibble::cuda {

// Where the other ranks write, in the memory of the reading rank (protocol.h).
struct Inbox {
  uint64_t* words{nullptr};  // [slots, N, tagged_rows H]: a float in the lower half, a tag above
  float* terms{nullptr};     // [N, own_room, H]: for the rows that this rank owns
  uint32_t* flags{nullptr};  // [N, own_room]: tags of what `terms` holds
  // [row_room]: tags of the rows that other ranks own and have sent to `outputs`.
  uint32_t* returned{nullptr};
  uint32_t* arrivals{nullptr};  // [N]: tags
};

// Where a sum stores what is read next, for all rows of a step. Owners of rows write it on every rank.
struct SumOutputs {
  float* x{nullptr};               // [T, H]
  __nv_bfloat16* normed{nullptr};  // [T, H]
};

struct Links {
  int rank{0}, num_ranks{1};
  int hidden{0}, own_room{0};  // own_room: maximum rows that a rank owns
  Inbox inboxes[kMaxRanks];
  SumOutputs outputs[kMaxRanks];
  const uint32_t* step{nullptr};  // of this rank; all ranks count the same steps
  uint32_t tags_per_step{0};      // the tag of message n of a step is *step * tags_per_step + n
  // In host memory, shared by all ranks: set to 1 by a rank that times out.
  uint32_t* failure{nullptr};
  unsigned long long patience_ns{0};
};

// What a launch does. Ranks that share a GPU run one after another, and none may wait for one that has not
// sent yet.
enum class Turn { kSendAndWait, kSend, kWait };

// The norm after a sum.
struct SumNorm {
  const float* weights{nullptr};  // [H], or null: no norm
  float eps{0};
  int image_rows{0};  // of SumOutputs::normed
};

// What ranks have of rows [first_row, first_row + num_rows) of a step. Pointers are to the step's first row.
struct SumArgs {
  Links links;
  Operation behind;  // the operation whose outputs the parts are
  int number;        // message number in the step, for the tag
  int slot;
  int first_row, num_rows;  // up to kSumRows
  const float* parts;       // part p of row r starts at p * part_stride + r * row_stride
  int num_parts;            // up to kMaxExpertsPerToken
  size_t part_stride, row_stride;
  const float* x;  // [T, H]
  float* out;      // [T, H]
  SumNorm norm;
  // [T, num_parts]: parts of weight 0 are skipped, whatever their memory holds. null: none is skipped.
  const float* weights{nullptr};
  // [T]: the row of `parts` that has this rank's parts of a row of the step, -1 for none. null: every row has
  // its own.
  const int* part_rows{nullptr};
};
// out = x + the sum over ranks of the sum of their parts; also stores its norm in this rank's `normed`, if
// there is one. For up to tagged_rows().
void sum_words(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// The same for more rows. x and out are SumOutputs::x, where a rank has the rows it owns. Without a norm, all
// ranks have all of x afterwards.
void sum_dealt(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// Calls the one of the two that takes this number of rows.
void sum_over_ranks(const LaunchContext& gpu, const SumArgs& args, Turn turn);

// A barrier: reports to all ranks that this one has arrived. When they continue, what its earlier launches
// wrote to them has arrived. The first rank may send some words with it.
struct MeetArgs {
  Links links;
  int number;
  const uint32_t* words{nullptr};  // [num_words]
  uint32_t* to[kMaxRanks]{};       // destination on each rank
  int num_words{0};
  StepExchange exchange{};  // where the host gets the time of the meeting; null: not reported
};
void meet(const LaunchContext& gpu, const MeetArgs& args, Turn turn);

void prepare_sums();
void prepare_dealt_sums();

}  // namespace nibble::cuda
