// Runs one sequence in a backend without an engine: for eval, which needs logits at every position, and for bench, which runs the
// same step again and again.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/token.h"
#include "kv/page_table.h"

namespace nibble::cli {

// A sequence in a backend that has nothing else in its KV cache.
class BackendSequence {
 public:
  BackendSequence(Backend& backend, const BackendOptions& room);
  // Another, empty one, which takes its pages from the same pools.
  BackendSequence beside() const;

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
  // The run of such a step, for a batch of several sequences. It points into this object and into what it is given.
  Run run_of(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs) const;

 private:
  struct Pools {
    explicit Pools(const BackendOptions& room) : full(room.num_full_pages), sliding(room.num_sliding_pages) {}
    PagePool full, sliding;
  };
  BackendSequence(Backend& backend, int max_batch_tokens, std::shared_ptr<Pools> pools);
  StepResult step(std::span<const TokenId> tokens, int offset, std::span<const OutputRow> outputs,
                  bool want_logits);

  Backend& backend_;
  int max_batch_tokens_;
  int max_rows_;  // the most rows of a step with logits
  std::shared_ptr<Pools> pools_;
  SequencePages pages_;
};

}  // namespace nibble::cli
