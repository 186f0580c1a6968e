// Exchanges sums and logits between ranks during a step, if each rank is a process. All ranks make the same
// calls in the same order with the same shapes. The data are in host memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/tensors/view.h"
#include "model/shares/share.h"

namespace nibble {

// Id by which the devices of all ranks connect directly (NCCL). The first rank's process makes it.
using GroupId = std::array<uint8_t, 128>;

class RankLinks {
 public:
  virtual ~RankLinks() = default;
  virtual const Share& share() const = 0;  // this process's part of the model
  // All-reduce: replaces `terms` by their sums over all ranks, added in float32 in the order of ranks. All
  // ranks get the same bits, whatever the number of elements.
  virtual void add_up(std::span<float> terms) = 0;
  // Gathers `logits` [n, V] on the first rank. Each rank has the columns of its share.
  virtual void collect(View<float, 2> logits) = 0;
  // Returns the id with which devices set up direct connections between ranks. Such devices sum and gather
  // over these connections instead of calling add_up() and collect().
  virtual const GroupId& group() const = 0;
  // Throws if another rank was lost. Call it repeatedly while waiting for a device.
  virtual void check_alive() const = 0;
};

}  // namespace nibble
