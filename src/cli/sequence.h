// The logits of a text at every position, straight from a backend: what eval measures needs no engine.
#pragma once

#include <functional>
#include <span>

#include "backend/backend.h"
#include "cli/load.h"
#include "core/token.h"
#include "kv/page_table.h"

namespace nibble::cli {

// One sequence in a backend that was made with room for one.
class Sequence {
 public:
  Sequence(Backend& backend, const BackendOptions& room);

  // Runs the tokens behind what there is. `visit` gets the logits [V] after each, in order.
  using Visit = std::function<void(int position, std::span<const float> logits)>;
  void feed(std::span<const TokenId> tokens, const Visit& visit);

 private:
  Backend& backend_;
  int max_rows_;  // of a step
  PagePool full_, sliding_;
  SequencePages pages_;
};

}  // namespace nibble::cli
