// A drafter for the toy model. Its proposals are right, wrong or mixed, at random. No answer may depend on
// its proposals.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "speculative/drafter.h"
#include "speculative/head.h"
#include "tests/engine/toy_backend.h"

namespace nibble {

// Returns the token after a context; -1: unknown.
using NextToken = std::function<TokenId(std::span<const TokenId> context)>;

class ToyDrafter final : public speculative::Drafter {
 public:
  // `topk` above 1: proposes trees. One path in each tree is right up to some length.
  explicit ToyDrafter(NextToken next, int topk = 1) : next_(std::move(next)), topk_(topk) {}
  void push(std::span<const TokenId> tokens) override {
    text_.insert(text_.end(), tokens.begin(), tokens.end());
  }
  speculative::Proposal propose(int most) override {
    if (topk_ > 1) return propose_tree(most);
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
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  // Proposes tokens in any order that puts a parent before its children.
  speculative::Proposal propose_tree(int most) {
    struct Place {
      std::vector<TokenId> context;
      bool is_right;
      std::vector<TokenId> behind{};
    };
    std::vector<Place> places{{text_, true}};  // after the text, then after each proposed token
    speculative::Proposal proposal;
    for (int num = below(most + 1), misses = 0; std::ssize(proposal.tokens) < num && misses < 50; ++misses) {
      const int at =
          below(2) == 0 ? static_cast<int>(places.size()) - 1 : below(static_cast<int>(places.size()));
      Place& from = places[static_cast<size_t>(at)];
      const TokenId right = from.is_right ? next_(from.context) : -1;
      const TokenId token = right >= 0 && below(3) > 0 ? right : below(kToyVocab);
      if (std::ssize(from.behind) == topk_ || std::count(from.behind.begin(), from.behind.end(), token) > 0)
        continue;
      from.behind.push_back(token);
      Place place{from.context, token == right};
      place.context.push_back(token);
      places.push_back(std::move(place));
      proposal.tokens.push_back(token);
      proposal.parents.push_back(at - 1);
    }
    return proposal;
  }

  NextToken next_;
  int topk_;
  std::vector<TokenId> text_;
  std::mt19937 random_{1};
};

// Returns the likeliest token of a model.
inline NextToken likeliest(ToyModel model) {
  return [model = std::move(model)](std::span<const TokenId> context) -> TokenId {
    try {
      const std::vector<float> logits = model(context);
      return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    } catch (const std::exception&) {  // the end of a script was reached
      return -1;
    }
  };
}

// Returns the options that draft everything that a ToyDrafter proposes: up to `max_drafts` tokens and up to
// `topk` children per token.
inline speculative::SpeculationOptions drafts_of(NextToken next, int max_drafts, int topk = 1) {
  return {.drafters = {[next](const speculative::DrafterSources& sources) {
            return std::make_unique<ToyDrafter>(next, sources.topk);
          }},
          .by_cost = false,
          .max_drafts = max_drafts,
          .topk = topk};
}

// Returns the options that draft with the toy backend's own draft head, always `max_drafts` tokens.
inline speculative::SpeculationOptions drafts_of_head(int max_drafts) {
  return {.drafters = {[](const speculative::DrafterSources&) {
            return std::make_unique<speculative::HeadDrafter>();
          }},
          .by_cost = false,
          .max_drafts = max_drafts,
          .draft_head = "toy"};
}

}  // namespace nibble
