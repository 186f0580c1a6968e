// What ranks tell each other in a step, by kernels that write into the others' memory and poll their own: the sums of what they have behind
// attention and behind the experts, and that all have come so far.
//
// Every rank adds up the same numbers in the same order, by rank: all have the same bits, in every step and with any number of rows.
// Nothing waits for ever: a rank that the others keep waiting says so in Links::failure, and goes on with what it has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/ranks/protocol.h"
#include "backend/cuda/step/step_exchange.h"

namespace nibble::cuda {

// Where the other ranks write, in the memory of the rank that reads it (protocol.h).
struct Inbox {
  uint64_t* words{nullptr};  // [slots, N, tagged_rows H]: a float below a tag
  float* terms{nullptr};     // [N, own_room, H]: of the rows that this rank owns
  uint32_t* flags{nullptr};  // [N, own_room]: tags of what `terms` holds
  uint32_t* returned{
      nullptr};  // [row_room]: tags of the rows that others own, which they have sent to `outputs`
  uint32_t* arrivals{nullptr};  // [N]: tags
};

// Where a sum leaves what is read next, for all rows of a step. Owners of rows write it on every rank.
struct SumOutputs {
  float* x{nullptr};               // [T, H]
  __nv_bfloat16* normed{nullptr};  // [T, H]
};

struct Links {
  int rank{0}, num_ranks{1};
  int hidden{0}, own_room{0};  // own_room: rows that a rank owns at most
  Inbox inboxes[kMaxRanks];
  SumOutputs outputs[kMaxRanks];
  const uint32_t* step{nullptr};  // of this rank; all count the same steps
  uint32_t tags_per_step{0};      // the tag of number n of a step is *step tags_per_step + n
  uint32_t* failure{
      nullptr};  // in memory of the host, which all ranks share: becomes 1 where one has waited too long
  unsigned long long patience_ns{0};
};

// What a launch does: where ranks share a GPU, one runs after the other, and none may wait for one that has not sent yet.
enum class Turn { kSendAndWait, kSend, kWait };

// The norm behind a sum.
struct SumNorm {
  const float* weights{nullptr};  // [H], or null: there is none
  float eps{0};
  int image_rows{0};  // of SumOutputs::normed
};

// What ranks have of rows [first_row, first_row + num_rows) of a step. Pointers are to the step's first row.
struct SumArgs {
  Links links;
  Operation behind;  // whose parts they are
  int number;        // of the tag, in the step
  int slot;
  int first_row, num_rows;  // up to kSumRows
  const float* parts;       // part p of row r begins at p part_stride + r row_stride
  int num_parts;            // up to kMaxExpertsPerToken
  size_t part_stride, row_stride;
  const float* x;  // [T, H]
  float* out;      // [T, H]
  SumNorm norm;
  // [T, num_parts]: parts of weight 0 are left out, whatever lies there. null: none is.
  const float* weights{nullptr};
  // [T]: the row of `parts` that has this rank's parts of a row of the step, -1 where it has none. null: each is in its own row.
  const int* part_rows{nullptr};
};
// out = x + the sum over ranks of the sum of their parts; and its norm in this rank's `normed`, where there is one. Up to tagged_rows().
void sum_words(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// The same of more rows, where x and out are SumOutputs::x, of which a rank has what it owns. If there is no norm, all ranks have all of x
// behind it.
void sum_dealt(const LaunchContext& gpu, const SumArgs& args, Turn turn);
// The one of the two that takes so many rows.
void sum_over_ranks(const LaunchContext& gpu, const SumArgs& args, Turn turn);

// Says to all ranks that this one has come so far: what its launches before this one wrote to them has arrived when they go on. The first rank
// may send some words with it.
struct MeetArgs {
  Links links;
  int number;
  const uint32_t* words{nullptr};  // [num_words]
  uint32_t* to[kMaxRanks]{};       // where they go on each rank
  int num_words{0};
  StepExchange exchange{};  // where the host is told the time of the meeting; null: nowhere
};
void meet(const LaunchContext& gpu, const MeetArgs& args, Turn turn);

void prepare_sums();
void prepare_dealt_sums();

}  // namespace nibble::cuda
