// A drafter guesses how a sequence continues. A wrong guess costs time but never changes an answer: every
// token is drawn as without drafts, and a draft is kept only if it equals the token drawn.
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
  // Index of the token that each token follows, as in parent_of() (model/batch.h). Siblings: likeliest first.
  // Earlier tokens are worth more to the drafter than later ones.
  std::vector<int> parents{};
  // Number of tokens before the copied text that equal the sequence's end. Longer: likelier accepted.
  int num_matched{0};
  // Probability of each token, given the tokens before it. Empty if the drafter has none.
  std::vector<float> probabilities{};
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Adds tokens to the sequence. The first call gets the prompt.
  virtual void push(std::span<const TokenId> tokens) = 0;
  virtual Proposal propose(int most) = 0;  // at most `most` tokens that may come next
  // Receives the drafts of the backend's draft head, which follow the tokens pushed so far.
  virtual void take(const Drafts&) {}
  // Whether drafts are made, and paid for, before propose(), which is then called in every step.
  virtual bool has_made_drafts() const { return false; }
  // Requests drafts from the draft model, which drafts for all sequences together (model.h).
  virtual void want(int) {}
};

}  // namespace nibble::speculative
