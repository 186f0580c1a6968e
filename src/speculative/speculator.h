// Holds the drafters of each sequence and their statistics, and chooses the next drafts. Drafters that are
// not used are observed too: their proposals are compared with the tokens that follow. So acceptance is known
// before any draft is verified; only the cost of verification must be found by trial.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "speculative/acceptance.h"
#include "speculative/controller.h"
#include "speculative/draft_counts.h"
#include "speculative/drafters.h"

namespace nibble::speculative {

inline constexpr int kMaxTopk{8};

struct SpeculationOptions {
  std::vector<MakeDrafter> drafters{};  // empty: no drafts
  bool by_cost{true};                   // true: verify the drafts that the controller chooses; false: all
  int max_drafts{16};                   // maximum per sequence and step, up to kMaxDrafts
  // Maximum number of tokens proposed for one position, up to kMaxTopk. If above 1, drafts form trees.
  int topk{1};
  NgramLengths ngram{};
  // Folder of a draft head; empty: no head. The backend must use the same head
  // (setup/settings/speculation.h).
  std::filesystem::path draft_head{};
  // Name or path of a draft model, and the loaded model; empty: no draft model.
  std::string draft_model{};
  DraftModelOptions model{};
};

class Track {  // the drafters of one sequence
 public:
  Track() = default;

 private:
  friend class Speculator;
  // Acceptance is measured separately for three kinds of drafts. The kind of a draft depends on the
  // probability that the drafter states or, if it states none, on the length of the match.
  static constexpr size_t kNumKinds{3};
  // `probability`: probability of the token, given that the earlier tokens with the same parent are wrong.
  static size_t kind_of(const Proposal& proposal, double probability);
  static std::vector<size_t> kinds_of(const Proposal& proposal);  // kind of each token

  struct Line {
    size_t index;  // index in SpeculationOptions::drafters
    std::unique_ptr<Drafter> drafter;
    std::array<Acceptance, kNumKinds> acceptance;
    Proposal watched{};  // proposal that is compared with the tokens that follow
    // Index of the last accepted token of `watched`, and number of accepted tokens.
    int last_right{-1}, num_right{0};
    // After wrong proposals the drafter pauses for some steps, unless drafts of the sequence are verified.
    int num_misses{0}, num_steps_to_wait{0};
  };
  std::shared_ptr<const FinishedTexts> finished_;  // the answers that the drafters search
  std::vector<Line> lines_;
  bool has_drafts_{false};  // whether the last choose() gave the sequence drafts; set only if by_cost
};

class Speculator {
 public:
  explicit Speculator(const SpeculationOptions& options);

  // `prediction` may be null.
  std::unique_ptr<Track> start(std::span<const TokenId> prompt, const Prediction* prediction,
                               std::string_view cache_salt = {});
  void push(Track& track, TokenId token);
  // Gives the drafters the drafts of the backend's head, which follow the tokens pushed so far.
  void take(Track& track, const Drafts& drafts);
  // Adds a finished answer: drafts for later requests with the same salt can be copied from it.
  void finish(std::span<const TokenId> answer, std::string_view cache_salt = {}) {
    finished_.add(cache_salt, answer);
  }

  struct Choice {
    Track* track{nullptr};
    int most{0};                    // maximum number of drafts, limited by free rows and pages
    std::vector<TokenId> tokens{};  // out: the chosen drafts
    std::vector<int> parents{};     // out: the parent of each draft, as in parent_of()
  };
  // Chooses the next step's drafts, at most num_rows_left. num_rows, num_sequences: size of the step without
  // drafts.
  void choose(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices);
  // Sets is_drafting(): whether drafts would have paid off in a step of this size that was launched without
  // drafts. Callers ignore the drafts in `choices`: choose() chooses those of the next step.
  void consider(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices);
  // Returns the number of tokens per sequence that the head or the draft model drafts for the next step,
  // during the step for which choose() was called last.
  int num_to_draft() const;
  int topk() const { return options_.topk; }  // number of tokens that the head drafts per position
  // Whether all drafts come from the head, as chains of constant length, so that a step can be planned before
  // its drafts are known. Requests with a prediction are exceptions. False if by_cost is set, because the
  // length then depends on probabilities.
  bool has_head_alone() const { return has_head_alone_; }
  bool has_head() const { return !options_.draft_head.empty(); }
  // Lets the draft model, if any, make `num_drafts` drafts for each of the sequences.
  DraftModel::CatchUp make_drafts(std::span<Track* const> tracks, int num_drafts);
  // Records a step in which every sequence got a token. Steps with prompts must not be recorded.
  void add(const StepMeasure& step) { controller_.add(step); }
  // Whether the last choose() chose drafts, or the last consider() found that drafts would pay off. If so,
  // the next step is launched only when the tokens of the current step are known.
  bool is_drafting() const { return is_drafting_; }

 private:
  struct Best {
    Proposal proposal{};
    DraftOffer offer{};
  };
  std::vector<double> chances_of(const Track::Line& line, const Proposal& proposal) const;
  Best best_of(Track& track, int most);

  SpeculationOptions options_;
  FinishedTextsBySalt finished_;
  std::unique_ptr<DraftModel> model_;
  Controller controller_;
  // Acceptance of each drafter's tokens, over all sequences. acceptance_: the first token proposed for a
  // position. acceptance_of_others_: further tokens for that position, if the earlier ones were wrong.
  std::vector<std::array<Acceptance, Track::kNumKinds>> acceptance_, acceptance_of_others_;
  bool is_drafting_;
  bool has_head_alone_;
};

}  // namespace nibble::speculative
