// Proposes what a draft head has made of the model's own hidden states (model/draft_head.h). The backend runs the head at the end of a
// step; this keeps its drafts until the next one.
#pragma once

#include "speculative/drafter.h"

namespace nibble::speculative {

class HeadDrafter final : public Drafter {
 public:
  void push(std::span<const TokenId> tokens) override;
  void take(std::span<const Draft> drafts) override { drafts_.assign(drafts.begin(), drafts.end()); }
  Proposal propose(int most) override;
  bool has_made_drafts() const override { return true; }

 private:
  std::vector<Draft> drafts_;  // of the tokens behind those that were pushed
};

}  // namespace nibble::speculative
