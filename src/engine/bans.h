// Bans tokens at one position of a request's answer by logit biases of -infinity: every sampler gives such
// tokens weight 0. Log-probabilities do not change: they come from the model's own logits (backend/sample.h).
// Meant for a few tokens; a ban of most of the vocabulary needs a mask (allowed_tokens.h).
//   runs        a banned token sequence never appears: after all its tokens but the last, the last is banned
//   min_tokens  stop tokens are banned until the answer has this number of tokens
#pragma once

#include <span>
#include <vector>

#include "engine/generation_request.h"

namespace nibble {

class BannedSampling {
 public:
  BannedSampling(SampleParams sample, std::vector<std::vector<TokenId>> runs, const StopParams& stop);

  // Whether the bans depend on the answer's tokens, not only on their number.
  bool needs_output() const { return needs_output_; }
  // Whether the answer's tokens, or their number, influence how the next token is sampled.
  bool depends_on_output() const {
    return needs_output_ || min_tokens_ > 0 || sample_.repetition_penalty != 1 ||
           sample_.presence_penalty != 0 || sample_.frequency_penalty != 0;
  }
  bool has_bans() const { return !runs_.empty() || min_tokens_ > 0; }
  // Returns how to sample the token after `output`, the answer so far. `index` is the answer's number of
  // tokens; if needs_output() is false, `output` may be shorter. The result is valid until the next call.
  const SampleParams& at(std::span<const TokenId> output, int index);

 private:
  SampleParams sample_;
  std::vector<std::vector<TokenId>> runs_;
  std::vector<TokenId> stop_tokens_;
  int min_tokens_;
  bool needs_output_{false};
  size_t num_fixed_;  // number of biases that apply at every position
};

}  // namespace nibble
