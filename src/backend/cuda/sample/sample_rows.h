// Converts the output rows of a step to the form that the device reads.
#pragma once

#include <vector>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/input/sample_input.h"
#include "model/batch.h"

namespace nibble::cuda {

// Owns the adjustments and masks of a step. Rows point to them, because their number has no limit.
class SampleRows {
 public:
  explicit SampleRows(int vocab) : index_(static_cast<size_t>(vocab), -1) {}

  // Begins a step. Rows point to the device's adjustments only after upload().
  void start(SampleRow* rows) {
    rows_ = next_ = rows;
    are_greedy_ = true;
    adjustments_.clear();
    masks_.clear();
  }
  // Adds an output row. The caller has validated its parameters (engine/validate.h) and tokens. `position`:
  // if only the device knows it, no parameter may depend on counts of output tokens. `follows`: the step's
  // row whose token, still unknown to the host, counts as output (Run::ahead).
  void add(const OutputRow& output, SamplePosition position, OptionalIndex follows = OptionalIndex::none());
  bool are_greedy() const { return are_greedy_; }  // whether every row needs only its likeliest token
  bool have_masks() const { return !masks_.empty(); }
  // Enqueues the copy of the adjustments, if any. Step n - 2 must have ended when step n is uploaded.
  void upload(Stream stream);
  // Fills in the masks and enqueues their copy. Call it before the sampling, while the device runs the step.
  void upload_masks(Stream stream);

 private:
  void add_adjustments(const OutputRow& output);
  size_t mask_bytes() const { return mask_words(static_cast<int>(index_.size())) * sizeof(uint32_t); }
  Adjustment& at(TokenId token);

  SampleRow *rows_{nullptr}, *next_{nullptr};
  bool are_greedy_{true};
  std::vector<Adjustment> adjustments_;
  std::vector<int> index_;  // [V], index of each token in `adjustments_`; -1: this row has none
  struct Mask {
    SampleRow* row;
    TokenMask* source;
  };
  std::vector<Mask> masks_;
  // Each buffer exists twice, because the previous step's copy may not have started yet.
  PinnedBuffer pinned_, last_pinned_, pinned_masks_, last_pinned_masks_;
  DeviceBuffer device_, device_masks_;
  DeviceBuffer outgrown_, outgrown_masks_;  // replaced by larger ones; the previous step may still read them
};

SampledToken to_sampled(const SampleResult& result);

}  // namespace nibble::cuda
