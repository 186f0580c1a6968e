// Exchanges sums and tokens between the ranks of a model (model/shares/share.h) during a step, if each rank
// is a process of its own. All ranks make the same calls in the same order and with the same shapes. The data
// are in the memory that the backend computes in.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/view.h"
#include "model/shares/share.h"

namespace nibble {

// An id by which the devices of a group of ranks find each other, if they have links of their own. Made by
// the process of the first rank.
using GroupId = std::array<uint8_t, 128>;

class RankLinks {
 public:
  virtual ~RankLinks() = default;
  virtual const Share& share() const = 0;  // of this process
  // All-reduce: replaces `terms` by the sums over all ranks, added in float32 in rank order. All ranks get
  // the same bits, and the bits of an element do not depend on the number of elements.
  virtual void add_up(std::span<float> terms) = 0;
  // Gathers the missing columns of `logits` [n, V] on the first rank. Each rank has the columns of its share.
  virtual void collect(View<float, 2> logits) = 0;
  // The id of the group, for devices that sum and gather over links of their own instead.
  virtual const GroupId& group() const = 0;
  // Throws if another rank was lost. To be called repeatedly while waiting for a device.
  virtual void check_alive() const = 0;
};

}  // namespace nibble
