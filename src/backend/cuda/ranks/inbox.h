// Allocates a rank's inbox (memory to which other ranks write), and numbers the messages of a step.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/ranks/sum.h"

namespace nibble::cuda {

size_t inbox_bytes(const Config& config, int num_ranks, int max_batch_tokens);  // returns 0 for a single rank

// Returns the largest number of rows that one rank owns in a sum (Links::own_room). A rank adds up the rows
// that it owns.
int own_room(int num_ranks, int max_batch_tokens);

class OwnedInbox {
 public:
  // Allocates the inbox on the calling thread's GPU, and enqueues in `stream` the work that zeros the inbox.
  OwnedInbox(const Config& config, int num_ranks, int max_batch_tokens, Stream stream);
  const Inbox& operator*() const { return inbox_; }

 private:
  DeviceBuffer bytes_;
  Inbox inbox_;
};

// Numbers the messages of a step. Each half layer has one sum per kSumRows rows. Each launch of logits has
// two meetings (barriers): after the logits have arrived, and after tokens are chosen.
class StepNumbers {
 public:
  StepNumbers(const Config& config, int max_batch_tokens);
  int of_sum(int half, int launch) const { return half * sums_of_half_ + launch; }
  int of_logits(int first_output) const { return num_sums_ + first_output / kMeetingOutputs * 2; }
  int of_tokens(int first_output) const { return of_logits(first_output) + 1; }
  int last() const { return count() - 1; }  // number of the messages of PeerSum::run_trial()
  int count() const { return num_sums_ + num_meetings_ + 1; }

 private:
  // Each launch of logits of a step has at least this number of rows, except the last one. So no two launches
  // get the same message numbers.
  static constexpr int kMeetingOutputs{64};
  int sums_of_half_, num_sums_, num_meetings_;
};

class FailureFlag {  // a word in host memory, which any rank can set (Links::failure)
 public:
  FailureFlag();
  uint32_t* data() const { return word_.as<uint32_t>(); }
  // Returns whether any rank has timed out since the last call.
  bool take();

 private:
  PinnedBuffer word_;
};

}  // namespace nibble::cuda
