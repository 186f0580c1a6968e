// The drafters of each sequence, how often they were right, and what is drafted next. Drafters not in use are
// observed too: their proposals are compared with the tokens that follow. So acceptance is known before a
// draft is verified, and only the cost of verification must be measured by trying.
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
  std::vector<MakeDrafter> drafters{};  // none: nothing is drafted
  bool by_cost{true};                   // the controller decides; false: every proposal is drafted
  int max_drafts{16};                   // per sequence and step, at most kMaxDrafts
  // Maximum tokens for one place, up to kMaxTopk. Above 1 drafts are trees, if the backend takes trees.
  int topk{1};
  NgramLengths ngram{};
  // Folder of a draft head, which the backend must have been given too (setup/speculation.h). Empty: no head.
  std::filesystem::path draft_head{};
  // Name or path of a draft model, and the loaded model. Empty: no draft model.
  std::string draft_model{};
  DraftModelOptions model{};
};

class Track {  // the drafters of one sequence
 public:
  Track() = default;

 private:
  friend class Speculator;
  // Classes of drafts with separate statistics, by match length or by the probability that the drafter gives.
  static constexpr size_t kNumKinds{3};
  // `probability` is that of this token, given that its siblings before it are wrong.
  static size_t kind_of(const Proposal& proposal, double probability);
  static std::vector<size_t> kinds_of(const Proposal& proposal);  // one for each token

  struct Line {
    size_t index;  // index of the drafter in the options
    std::unique_ptr<Drafter> drafter;
    std::array<Acceptance, kNumKinds> acceptance;
    Proposal watched{};  // the proposal that is compared with the tokens that follow
    // The last accepted token of `watched`, and the number of accepted tokens.
    int last_right{-1}, num_right{0};
    // A drafter that was wrong is called less often, unless the sequence has drafts in its steps.
    int num_misses{0}, num_steps_to_wait{0};
  };
  std::shared_ptr<const FinishedTexts> finished_;  // the answers that the drafters search
  std::vector<Line> lines_;
  bool has_drafts_{false};  // in the last step chosen; set only if by_cost
};

class Speculator {
 public:
  explicit Speculator(const SpeculationOptions& options);

  // `prediction` may be null.
  std::unique_ptr<Track> start(std::span<const TokenId> prompt, const Prediction* prediction,
                               std::string_view cache_salt = {});
  void push(Track& track, TokenId token);
  // Gives the drafters the drafts of the backend's head, which continue the tokens pushed so far.
  void take(Track& track, const Drafts& drafts);
  // Adds a finished answer, from which later requests with the same salt can be drafted.
  void finish(std::span<const TokenId> answer, std::string_view cache_salt = {}) {
    finished_.add(cache_salt, answer);
  }

  struct Choice {
    Track* track{nullptr};
    int most{0};                    // limit: tokens that have room
    std::vector<TokenId> tokens{};  // out: the drafts
    std::vector<int> parents{};     // out: the parent of each draft, as in parent_of()
  };
  // Fills in the drafts of the next step. The first three arguments: its size without drafts, the rows left.
  void choose(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices);
  // Sets is_drafting() for a step of this size. The real choice is made when the step is planned.
  void consider(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices);
  // Tokens that the head or the model must draft per sequence in the step chosen last, for the step after it.
  int num_to_draft() const;
  int topk() const { return options_.topk; }  // for each place that the head drafts for
  // Whether all drafts come from the head, in chains of constant length, except for requests with a
  // prediction. Then a step can be planned without a choice by the host. With by_cost the host must choose
  // how many drafts are worth a row, by their probabilities.
  bool has_head_alone() const { return has_head_alone_; }
  bool has_head() const { return !options_.draft_head.empty(); }
  // Lets the draft model, if any, make `num_drafts` drafts for each of the sequences.
  DraftModel::CatchUp make_drafts(std::span<Track* const> tracks, int num_drafts);
  // Records a step in which every sequence got a token; not for steps with prompts.
  void add(const StepMeasure& step) { controller_.add(step); }
  // Whether the last choose() had drafts, or the last consider() would. Then the next step waits for tokens.
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
  // Statistics over all sequences, by drafter: of the first token proposed for a place, by place, and of
  // further tokens for the same place, given that the earlier ones were wrong.
  std::vector<std::array<Acceptance, Track::kNumKinds>> acceptance_, acceptance_of_others_;
  bool is_drafting_;
  bool has_head_alone_;
};

}  // namespace nibble::speculative
