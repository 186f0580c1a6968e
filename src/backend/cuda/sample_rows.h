// The output rows of a step as the device reads them.
#pragma once

#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/sample_input.h"
#include "model/batch.h"

namespace nibble::cuda {

// Owns the adjustments of a step: their number is bounded by nothing that is known beforehand, so rows point to them.
class SampleRows {
 public:
  explicit SampleRows(int vocab) : index_(static_cast<size_t>(vocab), -1) {}

  // Begins a step of as many rows. They point to the device's adjustments after bring().
  void start(SampleRow* rows) {
    rows_ = next_ = rows;
    are_greedy_ = true;
    adjustments_.clear();
  }
  // Parameters outside of what engine/validate.h lets through, and tokens outside of the vocabulary, are a bug.
  void add(const OutputRow& output, int position);
  // Whether nothing but the likeliest token is asked for, of any row.
  bool are_greedy() const { return are_greedy_; }
  // Puts the copy of the adjustments into the stream, if there are any. The step before must have ended.
  void bring(Stream stream);

 private:
  void add_adjustments(const OutputRow& output);
  Adjustment& at(TokenId token);

  SampleRow *rows_{nullptr}, *next_{nullptr};
  bool are_greedy_{true};
  std::vector<Adjustment> adjustments_;
  std::vector<int> index_;  // [V], of a token in `adjustments_`; -1: not in this row
  PinnedBuffer pinned_;
  DeviceBuffer device_;
};

SampledToken to_sampled(const SampleResult& result);

}  // namespace nibble::cuda
