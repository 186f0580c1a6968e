// Runs a sequence on a backend without an engine: for eval, which needs logits at every position, and for
// bench, which repeats the same step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/token.h"
#include "kv/page_table.h"

namespace nibble::cli {

// A sequence on a backend whose KV cache holds only this sequence and the sequences made from it by beside().
class BackendSequence {
 public:
  BackendSequence(Backend& backend, const BackendOptions& room);
  // Returns another sequence, empty, that takes its pages from the same pools.
  BackendSequence beside() const;

  int length() const { return pages_.length(); }  // positions in the KV cache

  // Appends tokens to the sequence. Calls `visit` with the logits [V] after each token, in order.
  using Visit = std::function<void(int position, std::span<const float> logits)>;
  void feed(std::span<const TokenId> tokens, const Visit& visit);
  // Appends tokens without computing logits.
  void feed(std::span<const TokenId> tokens);

  // Takes pages for `num_tokens` more positions. Keeps the sliding pages in the window of the first new
  // position.
  void reserve(int num_tokens);
  // Runs one step over tokens that begin `offset` positions after the end of the sequence; reserve() must
  // cover them. The sequence does not grow, so the same step can be repeated. With `wants_next`, samples the
  // likeliest next token.
  void run_repeatable_step(std::span<const TokenId> tokens, int offset, bool wants_next);
  // Like run_repeatable_step(), but samples a token at every row, as in a step that verifies drafts.
  void run_checking_step(std::span<const TokenId> tokens, int offset);
  // Returns this sequence's run of a step that can be repeated, as in run_repeatable_step(), for a batch of
  // several sequences. The run points into this object and into the arguments.
  Run run_of(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs) const;

 private:
  BackendSequence(Backend& backend, int max_batch_tokens, std::shared_ptr<PagePool> pool);
  StepResult step(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs,
                  bool want_logits);

  Backend& backend_;
  int max_batch_tokens_;
  int max_rows_;  // maximum rows of a step that returns logits
  std::shared_ptr<PagePool> pool_;
  SequencePages pages_;
};

}  // namespace nibble::cli
