// The tokens that a request bans at one place of its answer. Each becomes a logit bias of -infinity, so every
// sampler gives it weight 0. Log-probabilities come from the model's own logits and do not change
// (backend/sample.h).
//
//   runs        the last token of a banned run is banned where the answer ends in the tokens before it, so
//               the run never appears
//   min_tokens  stop tokens are banned until the answer has this number of tokens
//
// These are few tokens. To ban most of the vocabulary, use a mask: allowed_tokens.h.
#pragma once

#include <span>
#include <vector>

#include "engine/generation_request.h"

namespace nibble {

class BannedSampling {
 public:
  BannedSampling(SampleParams sample, std::vector<std::vector<TokenId>> runs, const StopParams& stop);

  // Returns whether the bans depend on the answer's tokens, not only on their number.
  bool needs_output() const { return needs_output_; }
  // Returns whether the answer's tokens, or their number, influence how the next token is sampled.
  bool depends_on_output() const {
    return needs_output_ || min_tokens_ > 0 || sample_.repetition_penalty != 1 ||
           sample_.presence_penalty != 0 || sample_.frequency_penalty != 0;
  }
  bool has_bans() const { return !runs_.empty() || min_tokens_ > 0; }
  // Returns how to sample the token after `output`. `index` is the number of tokens in the answer; it may
  // exceed output.size() if needs_output() is false. The result is valid until the next call.
  const SampleParams& at(std::span<const TokenId> output, int index);

 private:
  SampleParams sample_;
  std::vector<std::vector<TokenId>> runs_;
  std::vector<TokenId> stop_tokens_;
  int min_tokens_;
  bool needs_output_{false};
  size_t num_fixed_;  // number of biases that apply at every place
};

}  // namespace nibble
