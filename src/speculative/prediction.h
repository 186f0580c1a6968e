// Proposes the text that the client expects as the answer (OpenAI's Predicted Outputs). If the answer differs
// from that text, searches the text for another place with the answer's last tokens.
#pragma once

#include "speculative/drafter.h"
#include "speculative/text_index.h"

namespace nibble::speculative {

struct Prediction {
  // Tokens before the text, such as a message header. They are drafted too, but not counted as predicted.
  std::vector<TokenId> before{};
  std::vector<TokenId> text{};  // empty: no prediction
};
// Returns the number of tokens of the predicted text that the drafter would find in the answer.
int num_predicted(const Prediction& prediction, std::span<const TokenId> answer);

class PredictionDrafter final : public Drafter {
 public:
  explicit PredictionDrafter(const Prediction& prediction);
  void push(std::span<const TokenId> tokens) override;
  Proposal propose(int most) override;
  int num_found() const;  // number of tokens of the predicted text that pushed tokens contain

 private:
  void look_for_place();

  TextIndex predicted_;
  size_t num_before_;
  std::vector<bool> is_found_;   // whether each token of the prediction was found in the answer
  std::vector<TokenId> recent_;  // the last tokens of the sequence
  int place_{0};                 // index in the prediction of the next expected token
  int num_in_step_{0};           // number of matching tokens before place_; 0: place_ is unknown
};

}  // namespace nibble::speculative
