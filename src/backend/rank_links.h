// Exchanges sums and tokens during a step between ranks that are processes of their own. All ranks make the
// same calls in the same order with the same shapes. Data are in the memory that the backend computes in.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/view.h"
#include "model/shares/share.h"

namespace nibble {

// Id with which the ranks' devices connect to each other directly (NCCL); made by the first rank's process.
using GroupId = std::array<uint8_t, 128>;

class RankLinks {
 public:
  virtual ~RankLinks() = default;
  virtual const Share& share() const = 0;  // the part of the model that this process has
  // All-reduce: replaces `terms` by their sums over ranks, added in float32 in rank order. All ranks get the
  // same bits, independent of the number of elements.
  virtual void add_up(std::span<float> terms) = 0;
  // Gathers `logits` [n, V] on the first rank; each rank has the columns of its share.
  virtual void collect(View<float, 2> logits) = 0;
  // Id with which devices connect to each other, if they sum and gather over direct links instead.
  virtual const GroupId& group() const = 0;
  // Throws if another rank was lost. Call repeatedly while waiting for a device.
  virtual void check_alive() const = 0;
};

}  // namespace nibble
