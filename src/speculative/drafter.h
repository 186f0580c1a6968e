// A drafter guesses how a sequence continues. A wrong guess costs time but never changes an answer: every
// token is sampled as without drafts, and a draft is kept only if it equals the sampled token.
#pragma once

#include <span>
#include <vector>

#include "core/tokens/token.h"
#include "model/batch.h"

namespace nibble::speculative {

inline constexpr int kMaxDrafts{32};  // maximum per sequence and step

struct Proposal {
  std::vector<TokenId> tokens{};
  // For each token, the index of the token before it, as in parent_of() (model/batch.h). Of tokens with the
  // same parent, the likeliest is first. If some drafts must be dropped, the last tokens are dropped first.
  std::vector<int> parents{};
  // If the proposal copies earlier text: number of tokens before that text that equal the end of the
  // sequence. More is better.
  int num_matched{0};
  // Probability of each token, given the tokens before it. Empty if the drafter does not know it.
  std::vector<float> probabilities{};
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Adds tokens to the sequence. The first call gets the prompt.
  virtual void push(std::span<const TokenId> tokens) = 0;
  virtual Proposal propose(int most) = 0;  // proposes at most `most` tokens
  // Receives the drafts of the backend's draft head, which follow the tokens pushed so far.
  virtual void take(const Drafts&) {}
  // Whether the drafts are already made when propose() is called. If so, propose() is called in every step: a
  // pause after wrong proposals would save no time.
  virtual bool has_made_drafts() const { return false; }
  // Makes the draft model (model.h) draft this number of tokens for the sequence in its next run().
  virtual void want(int) {}
};

}  // namespace nibble::speculative
