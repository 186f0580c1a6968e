// Converts the output rows of a step to the form that the sampling kernels read (SampleRow).
#pragma once

#include <vector>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/input/sample_input.h"
#include "model/batch.h"

namespace nibble::cuda {

// Owns the adjustments and masks of a step's rows. A row only points to its adjustments, whose number has no
// limit, and to its mask.
class SampleRows {
 public:
  explicit SampleRows(int vocab) : index_(static_cast<size_t>(vocab), -1) {}

  // Begins a step, whose rows add() will store from `rows` on. Only upload() sets the pointers in the rows.
  void start(SampleRow* rows) {
    rows_ = next_ = rows;
    are_greedy_ = true;
    adjustments_.clear();
    masks_.clear();
  }
  // Adds an output row, whose parameters (engine/validate.h) and tokens the caller has validated. `position`:
  // position of the token to sample. If only the device knows the position, the row must have no penalties,
  // which count output tokens. `follows`: the first row of the output's run, if the previous step samples
  // that row's input token (Run::ahead), so that the host does not know the token yet. The device then counts
  // the token as output for penalties.
  void add(const OutputRow& output, SamplePosition position, OptionalIndex follows = OptionalIndex::none());
  bool are_greedy() const { return are_greedy_; }  // whether every row needs only its likeliest token
  bool have_masks() const { return !masks_.empty(); }
  // Enqueues the copy of the adjustments if any row has adjustments. When step n is uploaded, step n - 2,
  // which used the same pinned buffers, must have ended.
  void upload(Stream stream);
  // Fills in the masks, and enqueues their copy. Call it after the step's layers are enqueued, and before
  // sampling is enqueued: the device then computes the layers while the host computes the masks.
  void upload_masks(Stream stream);

 private:
  void add_adjustments(const OutputRow& output);
  size_t mask_bytes() const { return mask_words(static_cast<int>(index_.size())) * sizeof(uint32_t); }
  Adjustment& at(TokenId token);

  SampleRow *rows_{nullptr}, *next_{nullptr};
  bool are_greedy_{true};
  std::vector<Adjustment> adjustments_;
  std::vector<int> index_;  // [V]: index in `adjustments_` of each token's adjustment; -1: none in this row
  struct Mask {
    SampleRow* row;
    TokenMask* source;
  };
  std::vector<Mask> masks_;
  // Buffers for a copy to the device.
  struct Room {
    // Pinned buffers exist twice, because the previous step's copy from one of them may not have started yet.
    PinnedBuffer pinned, last_pinned;
    DeviceBuffer device;
    DeviceBuffer outgrown;  // replaced by a larger buffer; the previous step may still read it

    void make(size_t bytes);  // makes room for the next copy
  };
  Room adjustment_room_, mask_room_;
};

SampledToken to_sampled(const SampleResult& result);

}  // namespace nibble::cuda
