// A drafter guesses how a sequence continues. A wrong guess costs time, but never changes an answer: a step
// draws every token as it would without drafts, and a draft is kept only if it equals the token drawn.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/token.h"
#include "model/batch.h"

namespace nibble::speculative {

inline constexpr int kMaxDrafts{32};  // of one sequence in one step

struct Proposal {
  std::vector<TokenId> tokens{};
  // parents[i]: index of the token that token i follows, as in parent_of() (model/batch.h). Among tokens with
  // the same parent, the likeliest comes first. Earlier tokens are worth more to the drafter than later ones.
  std::vector<int> parents{};
  // Length of the match: this number of tokens before the place that the proposal was copied from equal the
  // end of the sequence. The longer the match, the likelier the proposal is accepted.
  int num_matched{0};
  // The drafter's probability of each token, given the tokens before it. Empty if the drafter has none.
  std::vector<float> probabilities{};
};

// The drafter of one sequence.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Adds tokens to the sequence. The first call gets the prompt.
  virtual void push(std::span<const TokenId> tokens) = 0;
  // Returns at most `most` tokens that may come next; often none.
  virtual Proposal propose(int most) = 0;
  // Receives the drafts of the backend's draft head, which follow the tokens pushed so far. Other drafters
  // ignore them.
  virtual void take(const Drafts&) {}
  // True if drafts are made, and paid for, before propose() is called. Then propose() is called in every
  // step.
  virtual bool has_made_drafts() const { return false; }
  // Requests this number of drafts for the next step. Used by the draft model, which drafts for all sequences
  // together (model.h).
  virtual void want(int) {}
};

}  // namespace nibble::speculative
