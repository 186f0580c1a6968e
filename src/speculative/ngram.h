// Prompt lookup: proposes the tokens that followed an earlier occurrence of the sequence's last tokens. The
// longest match among the latest occurrences wins. Needs no training, and memory only for the text's index.
#pragma once

#include "speculative/drafter.h"
#include "speculative/text_index.h"

namespace nibble::speculative {

struct NgramLengths {
  int least{3};  // shortest match; with 1, nearly every step has drafts, few of which are accepted
  int most{8};   // longer matches are no better
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
