// The tokens that a request bans at a place of its answer. Each becomes a logit bias of -infinity, which every sampler obeys to the
// letter: the token's weight is 0. Log-probabilities are the model's own and do not change (backend/sample.h).
//
//   runs        the last token of a run is banned where the tokens before it are the answer's last ones: so no answer has the run
//   min_tokens  stop tokens are banned before the answer has so many tokens
//
// They are few. What bans most of a vocabulary is a mask: allowed_tokens.h.
#pragma once

#include <span>
#include <vector>

#include "engine/generation_request.h"

namespace nibble {

class BannedSampling {
 public:
  BannedSampling(SampleParams sample, std::vector<std::vector<TokenId>> runs, const StopParams& stop);

  // True if what is banned depends on the answer's tokens, not only on their number.
  bool needs_output() const { return needs_output_; }
  // True if the number of the answer's tokens, or they themselves, decide how the next one is sampled.
  bool depends_on_output() const {
    return needs_output_ || min_tokens_ > 0 || sample_.repetition_penalty != 1 ||
           sample_.presence_penalty != 0 || sample_.frequency_penalty != 0;
  }
  bool has_bans() const { return !runs_.empty() || min_tokens_ > 0; }
  // How the token behind `output` is sampled. Where needs_output() is false the answer may have more tokens than `output`: `index` is
  // how many. Valid until the next call.
  const SampleParams& at(std::span<const TokenId> output, int index);

 private:
  SampleParams sample_;
  std::vector<std::vector<TokenId>> runs_;
  std::vector<TokenId> stop_tokens_;
  int min_tokens_;
  bool needs_output_{false};
  size_t num_fixed_;  // biases that apply everywhere
};

}  // namespace nibble
