// The memory of a rank that the others write into, and the links of ranks that have them.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/ranks/sum.h"

namespace nibble::cuda {

// Bytes of an inbox; 0 where there is one rank.
size_t inbox_bytes(const Config& config, int num_ranks, int max_batch_tokens);

// The most rows that a rank owns of a sum (Links::own_room).
int own_room(int num_ranks, int max_batch_tokens);

class OwnedInbox {
 public:
  // On the device that is current. Cleared when `stream` has run.
  OwnedInbox(const Config& config, int num_ranks, int max_batch_tokens, Stream stream);
  const Inbox& operator*() const { return inbox_; }

 private:
  DeviceBuffer bytes_;
  Inbox inbox_;
};

// The numbers of what ranks tell each other in a step. A half of a layer ends with a sum, of several launches if it has more than kSumRows; a
// launch of logits with two meetings: the logits are there, the tokens are chosen.
class StepNumbers {
 public:
  StepNumbers(const Config& config, int max_batch_tokens);
  int of_sum(int half, int launch) const { return half * sums_of_half_ + launch; }
  int of_logits(int first_output) const { return num_sums_ + first_output / kMeetingOutputs * 2; }
  int of_tokens(int first_output) const { return of_logits(first_output) + 1; }
  int last() const { return count() - 1; }  // of no step: for a trial
  int count() const { return num_sums_ + num_meetings_ + 1; }

 private:
  static constexpr int kMeetingOutputs{64};  // kOutputRows of workspace.h
  int sums_of_half_, num_sums_, num_meetings_;
};

// A word of the host that every rank can write (Links::failure).
class FailureFlag {
 public:
  FailureFlag();
  uint32_t* data() const { return word_.as<uint32_t>(); }
  // Says whether a rank has waited too long since this was asked last.
  bool take();

 private:
  PinnedBuffer word_;
};

}  // namespace nibble::cuda
