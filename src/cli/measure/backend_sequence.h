// A sequence on a backend without an engine, for eval (logits at every position) and bench (repeated steps).
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "backend/backend.h"
#include "core/tokens/token.h"
#include "kv/page_table.h"

namespace nibble::cli {

// The backend's KV cache must hold only this sequence and sequences made by beside().
class BackendSequence {
 public:
  BackendSequence(Backend& backend, const BackendOptions& room);
  BackendSequence beside() const;  // returns a new empty sequence that takes pages from the same pools

  int length() const { return pages_.length(); }  // positions in the KV cache

  // Appends tokens; calls `visit` with the logits (one per token of the vocabulary) after each token, in
  // order.
  using Visit = std::function<void(int position, std::span<const float> logits)>;
  void feed(std::span<const TokenId> tokens, const Visit& visit);
  void feed(std::span<const TokenId> tokens);  // computes no logits

  // Allocates pages for `num_tokens` more positions. Frees pages of sliding layers before the window of the
  // first of these positions.
  void reserve(int num_tokens);
  // Runs a step over `tokens`, which begin `offset` positions after the sequence's end, in reserved pages.
  // The sequence does not grow, so the step can be repeated. `wants_next`: sample the token after `tokens`.
  void run_repeatable_step(std::span<const TokenId> tokens, int offset, bool wants_next);
  // Like run_repeatable_step(), but samples after every token, like a step that verifies drafts.
  void run_checking_step(std::span<const TokenId> tokens, int offset);
  // Returns a run for a batch of several sequences. The run points into this object, `tokens` and `outputs`.
  Run run_of(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs) const;

 private:
  BackendSequence(Backend& backend, int max_batch_tokens, std::shared_ptr<PagePool> pool);
  StepResult step(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs,
                  bool want_logits);

  Backend& backend_;
  int max_batch_tokens_;
  int max_rows_;  // maximum tokens of a step that returns logits
  std::shared_ptr<PagePool> pool_;
  SequencePages pages_;
};

}  // namespace nibble::cli
