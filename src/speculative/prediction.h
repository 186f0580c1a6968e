// Proposes a text that the client expects as the answer (OpenAI's Predicted Outputs). Where the answer
// differs, looks for another place in the text that matches the answer's last tokens.
#pragma once

#include "speculative/drafter.h"
#include "speculative/text_index.h"

namespace nibble::speculative {

struct Prediction {
  // Tokens before the text, such as a message header: drafted too, but not counted as predicted.
  std::vector<TokenId> before{};
  std::vector<TokenId> text{};  // empty: no prediction
};
// How many tokens of the predicted text appear in the answer, as the drafter finds them.
int num_predicted(const Prediction& prediction, std::span<const TokenId> answer);

class PredictionDrafter final : public Drafter {
 public:
  explicit PredictionDrafter(const Prediction& prediction);
  void push(std::span<const TokenId> tokens) override;
  Proposal propose(int most) override;
  int num_found() const;  // places of the predicted text that pushed tokens matched

 private:
  void look_for_place();

  TextIndex predicted_;
  size_t num_before_;
  std::vector<bool> is_found_;   // by place in the prediction
  std::vector<TokenId> recent_;  // the last tokens of the sequence
  int place_{0};                 // place of the next expected token in the prediction
  int num_in_step_{0};           // consecutive tokens that have matched the prediction; 0: the place is lost
};

}  // namespace nibble::speculative
