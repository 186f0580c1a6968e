// Runs one sequence in a backend without an engine: for eval, which needs logits at every position, and for bench, which runs the
// same step again and again.
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

  int length() const { return pages_.length(); }  // positions in the KV cache

  // Appends tokens to the sequence. `visit` gets the logits [V] after each token, in order.
  using Visit = std::function<void(int position, std::span<const float> logits)>;
  void feed(std::span<const TokenId> tokens, const Visit& visit);
  // The same without logits.
  void feed(std::span<const TokenId> tokens);

  // Takes pages for `num_tokens` more positions; the sliding pages in the window of the first of them stay.
  void reserve(int num_tokens);
  // Runs one step over tokens that begin `offset` positions after the end; reserve() has to cover them. The sequence does not grow, so
  // that the same step can be run any number of times. With `wants_next` the likeliest next token is chosen.
  void run_repeatable_step(std::span<const TokenId> tokens, int offset, bool wants_next);
  // The same with every row choosing a token, as where drafts are checked.
  void run_checking_step(std::span<const TokenId> tokens, int offset);
  // The same with wants_next, recorded by Backend::profile.
  std::vector<TimedWork> profile(std::span<const TokenId> tokens, int offset);

 private:
  Run run_of(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs) const;
  StepResult step(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs,
                  bool want_logits);

  Backend& backend_;
  int max_batch_tokens_;
  int max_rows_;  // the most rows of a step with logits
  PagePool full_, sliding_;
  SequencePages pages_;
};

}  // namespace nibble::cli
