// Encodes a step's batch for the followers, without sampling parameters: only the head samples.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"
#include "model/config.h"
#include "nodes/bytes.h"

namespace nibble::nodes {

// Upper limits of a batch. All nodes create their backends with these limits.
struct Room {
  int num_pages{0}, max_table_pages{0};
  int max_batch_tokens{0};
  friend bool operator==(const Room&, const Room&) = default;
};
size_t most_bytes(const Room& room, const Config& config);  // size of the largest encoded batch

Bytes encode(const Batch& batch);

class ReceivedBatch {  // a decoded batch; owns the storage of its spans
 public:
  // Throws InputError if the message is truncated or too long, or a token, page or position is out of range.
  ReceivedBatch(std::span<const uint8_t> bytes, const Room& room, const Config& config);
  Batch view() const { return {.runs = runs_}; }

 private:
  std::vector<TokenId> tokens_;
  std::vector<PageId> pages_;
  std::vector<OutputRow> outputs_;
  std::vector<Run> runs_;
};

}  // namespace nibble::nodes
