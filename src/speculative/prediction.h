// Proposes a text that the client expects as the answer (OpenAI's Predicted Outputs). Follows the answer through that text; where they
// part, it looks for the next place of the text at which the answer's last tokens stand.
#pragma once

#include "speculative/drafter.h"
#include "speculative/text_index.h"

namespace nibble::speculative {

struct Prediction {
  std::vector<TokenId>
      before{};  // tokens that come before it, as the header of a message: they are drafted too, and not counted
  std::vector<TokenId> text{};  // empty: nothing is predicted
};
// Counts the tokens of the predicted text that an answer has, as the drafter finds them.
int num_predicted(const Prediction& prediction, std::span<const TokenId> answer);

class PredictionDrafter final : public Drafter {
 public:
  explicit PredictionDrafter(const Prediction& prediction);
  void push(std::span<const TokenId> tokens) override;
  Proposal propose(int most) override;
  // Tokens of the predicted text that were pushed, each place of it once.
  int num_found() const;

 private:
  void look_for_place();

  TextIndex predicted_;
  size_t num_before_;
  std::vector<bool> is_found_;   // by place
  std::vector<TokenId> recent_;  // the last tokens of the sequence
  int place_{0};                 // in the prediction: the next token is expected to be the one there
  int num_in_step_{0};  // tokens that have been as predicted, one after the other; 0: there is no place
};

}  // namespace nibble::speculative
