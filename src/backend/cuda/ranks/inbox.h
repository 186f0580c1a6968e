// The memory of a rank that the other ranks write to, and the links between ranks that write to each other's
// memory.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/ranks/sum.h"

namespace nibble::cuda {

// Returns the bytes of an inbox; 0 for a single rank.
size_t inbox_bytes(const Config& config, int num_ranks, int max_batch_tokens);

// Returns the maximum number of rows of a sum that a rank owns (Links::own_room).
int own_room(int num_ranks, int max_batch_tokens);

class OwnedInbox {
 public:
  // Allocates the inbox on the current device and enqueues its zeroing in `stream`.
  OwnedInbox(const Config& config, int num_ranks, int max_batch_tokens, Stream stream);
  const Inbox& operator*() const { return inbox_; }

 private:
  DeviceBuffer bytes_;
  Inbox inbox_;
};

// The message numbers of a step. Half a layer ends with a sum, of several launches if it has more than
// kSumRows rows. Each launch of logits has two meetings: the first when the logits have arrived, the second
// when the tokens are chosen.
class StepNumbers {
 public:
  StepNumbers(const Config& config, int max_batch_tokens);
  int of_sum(int half, int launch) const { return half * sums_of_half_ + launch; }
  int of_logits(int first_output) const { return num_sums_ + first_output / kMeetingOutputs * 2; }
  int of_tokens(int first_output) const { return of_logits(first_output) + 1; }
  int last() const { return count() - 1; }  // steps do not use it: for the trial (rank.h)
  int count() const { return num_sums_ + num_meetings_ + 1; }

 private:
  static constexpr int kMeetingOutputs{64};  // kOutputRows of workspace.h
  int sums_of_half_, num_sums_, num_meetings_;
};

// A word in host memory that every rank can write (Links::failure).
class FailureFlag {
 public:
  FailureFlag();
  uint32_t* data() const { return word_.as<uint32_t>(); }
  // Returns whether a rank has timed out since the last call.
  bool take();

 private:
  PinnedBuffer word_;
};

}  // namespace nibble::cuda
