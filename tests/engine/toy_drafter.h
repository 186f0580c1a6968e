// A drafter for the toy model. What it proposes is right, wrong or both, by chance; no answer may depend on it.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "speculative/drafter.h"
#include "tests/engine/toy_backend.h"

namespace nibble {

// What comes behind a context; -1: nothing is known.
using NextToken = std::function<TokenId(std::span<const TokenId> context)>;

class ToyDrafter final : public speculative::Drafter {
 public:
  explicit ToyDrafter(NextToken next) : next_(std::move(next)) {}
  void push(std::span<const TokenId> tokens) override {
    text_.insert(text_.end(), tokens.begin(), tokens.end());
  }
  speculative::Proposal propose(int most) override {
    const auto below = [&](int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); };
    std::vector<TokenId> context = text_;
    const int num_right = below(most + 1), num = num_right + below(4);
    for (int i = 0; i < std::min(num, most); ++i) {
      const TokenId right = next_(context);
      if (right < 0) break;
      context.push_back(i < num_right ? right : below(kToyVocab));
    }
    return {.tokens = {context.begin() + static_cast<ptrdiff_t>(text_.size()), context.end()}};
  }

 private:
  NextToken next_;
  std::vector<TokenId> text_;
  std::mt19937 random_{1};
};

// The likeliest token of a model.
inline NextToken likeliest(ToyModel model) {
  return [model = std::move(model)](std::span<const TokenId> context) -> TokenId {
    try {
      const std::vector<float> logits = model(context);
      return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    } catch (const std::exception&) {  // a script has ended
      return -1;
    }
  };
}

// All that such a drafter says is drafted, up to `max_drafts` tokens.
inline speculative::SpeculationOptions drafts_of(NextToken next, int max_drafts) {
  return {
      .drafters = {[next](const speculative::DrafterSources&) { return std::make_unique<ToyDrafter>(next); }},
      .by_cost = false,
      .max_drafts = max_drafts};
}

}  // namespace nibble
