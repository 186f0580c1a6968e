// Proposes the drafts of a draft head (model/draft_head/draft_head.h), which works on the model's hidden
// states. The backend runs the head at the end of a step; HeadDrafter keeps the drafts for the next step.
#pragma once

#include "speculative/drafter.h"

namespace nibble::speculative {

class HeadDrafter final : public Drafter {
 public:
  void push(std::span<const TokenId> tokens) override;
  void take(const Drafts& drafts) override {
    drafts_ = drafts;
    last_ = -1;
    has_left_ = false;
  }
  Proposal propose(int most) override;
  bool has_made_drafts() const override { return true; }

 private:
  Drafts drafts_;
  int last_{-1};          // index of the last draft that the text confirmed; -1: none yet
  bool has_left_{false};  // whether the text continued with a token that was not drafted
};

}  // namespace nibble::speculative
