// A drafter guesses how a sequence goes on. What it says costs speed where it is wrong, and never changes an answer: a step draws every
// token as it would without drafts, and a draft is only kept where it equals the token that was drawn.
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
  // What each stands behind, as parent_of() has it: of those behind one token the likeliest comes first. The first tokens are worth more to
  // the drafter than later ones.
  std::vector<int> parents{};
  // So many tokens before these are the same where the drafter has them from. The more there are, the likelier these are right.
  int num_matched{0};
  std::vector<float>
      probabilities{};  // what the drafter gives each of them behind those before it; empty: it has no such figure
};

// Belongs to one sequence.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // The sequence went on by these tokens. The prompt comes first.
  virtual void push(std::span<const TokenId> tokens) = 0;
  // At most `most` tokens that may come next; often none.
  virtual Proposal propose(int most) = 0;
  // The backend's draft head expects these behind the tokens that were pushed. Whoever proposes something else does not listen.
  virtual void take(const Drafts&) {}
  // True where drafts are made, and paid for, before they are asked for: then they are asked for in every step.
  virtual bool has_made_drafts() const { return false; }
  // So many drafts are wanted for the next step. A model makes them for all sequences together (model.h).
  virtual void want(int) {}
};

}  // namespace nibble::speculative
