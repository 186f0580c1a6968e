// The ranks of a model (model/shares/share.h) exchange sums and tokens in a step through these calls, where each rank is a process of its own.
// All make the same calls in the same order and with the same shapes. The data lie in the memory that the backend computes in.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/view.h"
#include "model/shares/share.h"

namespace nibble {

// By what the devices of a group of ranks find each other, where they have links of their own. Made by the first rank's process.
using GroupId = std::array<uint8_t, 128>;

class RankLinks {
 public:
  virtual ~RankLinks() = default;
  virtual const Share& share() const = 0;  // of this process
  // Replaces the terms by the sums over all ranks, added in float32 in the order of ranks: all have the same bits, and an element's do not
  // depend on how many there are.
  virtual void add_up(std::span<float> terms) = 0;
  // Gives the first rank what it lacks of `logits` [n, V]. Each rank has the columns of its share.
  virtual void collect(View<float, 2> logits) = 0;
  // For devices that do both by links of their own.
  virtual const GroupId& group() const = 0;
  // Throws where another rank was lost. Whoever waits for a device asks again and again.
  virtual void check_alive() const = 0;
};

}  // namespace nibble
