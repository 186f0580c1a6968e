// One sequence straight in a backend, without an engine: the logits of a text at every position, for eval, and steps that
// can be run again, for bench.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/token.h"
#include "kv/page_table.h"

namespace nibble::cli {

// One sequence in a backend that was made with room for one.
class BackendSequence {
 public:
  BackendSequence(Backend& backend, const BackendOptions& room);

  int length() const { return pages_.length(); }  // positions that there are

  // Runs the tokens behind what there is. `visit` gets the logits [V] after each, in order.
  using Visit = std::function<void(int position, std::span<const float> logits)>;
  void feed(std::span<const TokenId> tokens, const Visit& visit);
  // The same without logits.
  void feed(std::span<const TokenId> tokens);

  // Takes pages for as many positions behind what there is, and keeps the sliding ones that the first of them sees.
  void reserve(int num_tokens);
  // One step over tokens that begin `offset` positions behind what there is; room for them was reserved. They do not become
  // part of it: the same positions may be run any number of times. With `wants_next` the token after the last one is
  // chosen, the likeliest.
  void run_repeatable_step(std::span<const TokenId> tokens, int offset, bool wants_next);
  // The same, with the next token, and what it did (Backend::profile).
  std::vector<TimedWork> profile(std::span<const TokenId> tokens, int offset);

 private:
  Run run_of(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs) const;
  StepResult step(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs,
                  bool want_logits);

  Backend& backend_;
  int max_batch_tokens_;
  int max_rows_;  // of a step whose logits come back
  PagePool full_, sliding_;
  SequencePages pages_;
};

}  // namespace nibble::cli
