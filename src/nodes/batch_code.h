// A step's batch as bytes: what a follower needs of it. It samples nothing, so how tokens are chosen stays with the head.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"
#include "model/config.h"
#include "nodes/bytes.h"

namespace nibble::nodes {

// What a batch may hold: the numbers that all nodes made their backends with.
struct Room {
  int num_full_pages{0}, num_sliding_pages{0};
  int max_batch_tokens{0};
  friend bool operator==(const Room&, const Room&) = default;
};
// No batch takes more bytes.
size_t most_bytes(const Room& room, const Config& config);

Bytes encode(const Batch& batch);

// A batch with all that its spans show.
class ReceivedBatch {
 public:
  // Throws InputError for whatever a backend could not run: a message cut short or too long; a token, a page or a position that there is not.
  ReceivedBatch(std::span<const uint8_t> bytes, const Room& room, const Config& config);
  Batch view() const { return {.runs = runs_}; }

 private:
  std::vector<TokenId> tokens_;
  std::vector<PageId> pages_;
  std::vector<OutputRow> outputs_;
  std::vector<Run> runs_;
};

}  // namespace nibble::nodes
