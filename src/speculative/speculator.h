// Holds what an engine knows about drafting: the drafters of each sequence, how often they were right, and what is drafted next.
//
// Drafters that are not used are watched all the same: what they propose is compared with the tokens that come. So the chance that a
// draft is right is known before one is ever checked, and only the cost of checking has to be tried.
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
  bool by_cost{true};                   // the controller decides; else all that is proposed is drafted
  int max_drafts{16};                   // of a sequence in a step, at most kMaxDrafts
  // Tokens for one place, at most kMaxTopk. More than 1: drafts are trees, where the backend takes them.
  int topk{1};
  NgramLengths ngram{};
  // A folder with a draft head, which the backend must have been given (setup/speculation.h). Empty: there is none.
  std::filesystem::path draft_head{};
  // The name or the path of a model that drafts, and what it was loaded to. Empty: there is none.
  std::string draft_model{};
  DraftModelOptions model{};
};

// The drafters of one sequence.
class Track {
 public:
  Track() = default;

 private:
  friend class Speculator;
  // Proposals that match much of the text are another thing than those that match little of it, and so are drafts that a head is sure of.
  static constexpr size_t kNumKinds{3};
  // `probability`: of this token, where those that stand before it at its place are wrong.
  static size_t kind_of(const Proposal& proposal, double probability);
  static std::vector<size_t> kinds_of(const Proposal& proposal);  // of each token

  struct Line {
    size_t index;  // of the drafter, in the options
    std::unique_ptr<Drafter> drafter;
    std::array<Acceptance, kNumKinds> acceptance;
    // A proposal that is compared with what comes.
    Proposal watched{};
    int last_right{-1}, num_right{0};  // the token that has come last, and how many have
    // One that has been wrong is not asked in each step, unless the sequence has drafts in its steps.
    int num_misses{0}, num_steps_to_wait{0};
  };
  std::shared_ptr<const FinishedTexts> finished_;  // that the drafters look in
  std::vector<Line> lines_;
  bool has_drafts_{false};  // in the step that was chosen last, where cost decides
};

class Speculator {
 public:
  explicit Speculator(const SpeculationOptions& options);

  // Begins a sequence; null: nothing is predicted.
  std::unique_ptr<Track> start(std::span<const TokenId> prompt, const Prediction* prediction,
                               std::string_view cache_salt = {});
  // A token came.
  void push(Track& track, TokenId token);
  // The backend's head drafted these behind the tokens that came.
  void take(Track& track, const Drafts& drafts);
  // An answer is complete: from now on answers to requests with the same salt are drafted from it too.
  void finish(std::span<const TokenId> answer, std::string_view cache_salt = {}) {
    finished_.add(cache_salt, answer);
  }

  struct Choice {
    Track* track{nullptr};
    int most{0};                    // tokens that have room
    std::vector<TokenId> tokens{};  // the choice
    std::vector<int> parents{};     // what each stands behind, as parent_of() has it
  };
  // Fills in the drafts of the next step, whose size without drafts is given.
  void choose(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices);
  // Asks whether a step of this size would have drafts, for is_drafting(). Where it would, that is decided again when the step is planned.
  void consider(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices);
  // Tokens that the head or the model is to draft for each sequence in that step, for the one after it.
  int num_to_draft() const;
  int topk() const { return options_.topk; }  // for each of the places that the head drafts for
  // Says whether all drafts are what the head makes, always as many, one behind the other, but for those that a request predicts. Then a step
  // needs no choice of the host. Where cost decides, how likely the drafts are says how many are worth a row.
  bool has_head_alone() const { return has_head_alone_; }
  bool has_head() const { return !options_.draft_head.empty(); }
  // The model makes so many drafts behind each of the texts, where there is a model.
  DraftModel::CatchUp make_drafts(std::span<Track* const> tracks, int num_drafts);
  // A step in which every sequence got a token, prompts apart.
  void add(const StepMeasure& step) { controller_.add(step); }
  // Says whether drafts would have been chosen when that was asked last: the next step then begins when this one's tokens are known.
  bool is_drafting() const { return is_drafting_; }

 private:
  // The tokens of a proposal, and what is believed of them.
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
  // Of all sequences, by drafter: of the first token for a place, by place; and of the others, where those before them are wrong.
  std::vector<std::array<Acceptance, Track::kNumKinds>> acceptance_, acceptance_of_others_;
  bool is_drafting_;
  bool has_head_alone_;
};

}  // namespace nibble::speculative
