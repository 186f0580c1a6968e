// Prompt lookup: what followed the last tokens when the sequence had them before, in its prompt or its answer. Of the latest places the
// one with the longest match counts. Needs no training and no memory beside the text's own.
#pragma once

#include "speculative/drafter.h"
#include "speculative/text_index.h"

namespace nibble::speculative {

struct NgramLengths {
  int least{3};  // tokens that must match; with one, a draft comes in almost every step and is seldom right
  int most{8};   // that count
};

class NgramDrafter final : public Drafter {
 public:
  explicit NgramDrafter(const NgramLengths& lengths) : lengths_(lengths), index_(lengths.least) {}
  void push(std::span<const TokenId> tokens) override {
    for (const TokenId token : tokens) index_.push(token);
  }
  Proposal propose(int most) override;

 private:
  NgramLengths lengths_;
  TextIndex index_;
};

}  // namespace nibble::speculative
