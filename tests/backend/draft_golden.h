// Golden data of the draft heads in models/tiny-gpt-oss-eagle3, and a function that repeats their draft
// rounds on a backend.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "formats/open_container.h"
#include "model/draft_head/draft_head.h"
#include "model/weights.h"
#include "tests/backend/draft_rounds.h"
#include "tests/folders.h"

namespace nibble {

// The folder of a draft head, and the name of its golden data.
struct HeadGolden {
  const char *head, *golden;
};
inline constexpr HeadGolden kHeadGoldens[]{
    {"specforge", "main"}, {"modelopt", "modelopt"}, {"speculators", "speculators"}};

inline const std::shared_ptr<const Weights>& model_of_heads() {
  static const auto tiny =
      std::make_shared<const Weights>(open_weights(test::source_path("models/tiny-gpt-oss")));
  return tiny;
}

inline std::shared_ptr<const DraftHead> open_golden_head(const HeadGolden& golden) {
  return open_draft_head(std::filesystem::path(test::source_path("models/tiny-gpt-oss-eagle3")) / golden.head,
                         model_of_heads()->config);
}

class HeadGoldenData {
 public:
  explicit HeadGoldenData(const HeadGolden& golden)
      : name_(golden.golden), tensors_(open_container(folder() / (name_ + ".safetensors"))) {}

  std::vector<std::string> prompts() const {
    const auto index = nlohmann::json::parse(read_text_file(folder() / (name_ + ".json")));
    std::vector<std::string> names;
    for (const auto& prompt : index["prompts"]) names.push_back(prompt["name"]);
    return names;
  }
  template <typename T>
  std::span<const T> tensor(const std::string& name) const {
    const Tensor* found = tensors_.find(name);
    if (!found) throw std::runtime_error("no golden tensor " + name);
    return {reinterpret_cast<const T*>(found->data.data()), found->data.size() / sizeof(T)};
  }

 private:
  static std::filesystem::path folder() { return test::source_path("tests/golden/eagle3"); }

  std::string name_;
  Container tensors_;
};

inline constexpr int kPagesOfRounds{64}, kDraftDepth{3};

// Counts accepted drafts, in the golden rounds or in rounds that a backend ran.
struct AcceptedDrafts {
  int num_accepted{0}, num_rounds{0};
  double in_a_round() const { return static_cast<double>(num_accepted) / num_rounds; }
};
struct GoldenAndFound {
  AcceptedDrafts golden, found;
  int num_drafts_compared{0};
};

// Differences from the golden data that are allowed on a backend. On a float32 backend, none are allowed.
struct RoundsTolerance {
  // Called with the name of the prompt and the index of the first token that differs from the golden answer.
  // Later rounds are not compared. Null: no token may differ.
  std::function<void(const std::string& prompt, size_t token)> parted{};
  // A backend may draft another token if the golden draft leads the runner-up by at most this gap. The drafts
  // that follow such a draft are not compared. std::nullopt: no drafts are compared.
  std::optional<float> draft_gap{};
};

// Runs all prompts of the golden data, each on a new backend.
inline GoldenAndFound run_golden_rounds(const HeadGolden& head,
                                        const std::function<std::unique_ptr<Backend>()>& make,
                                        const RoundsTolerance& tolerance) {
  const HeadGoldenData data(head);
  GoldenAndFound all;
  for (const std::string& name : data.prompts()) {
    SCOPED_TRACE(name);
    const auto greedy = data.tensor<int32_t>(name + ".greedy"),
               accepted = data.tensor<int32_t>(name + ".chain_accepted"),
               drafts = data.tensor<int32_t>(name + ".chain_drafts");
    const auto gaps = data.tensor<float>(name + ".chain_gaps");
    const std::unique_ptr<Backend> backend = make();
    const DraftRounds run = run_draft_rounds(*backend, data.tensor<int32_t>(name + ".ids"),
                                             static_cast<int>(greedy.size()), kDraftDepth, kPagesOfRounds);
    const auto same = std::mismatch(greedy.begin(), greedy.end(), run.answer.begin()).first;
    const bool is_same = same == greedy.end();
    const auto end = same - greedy.begin() + (is_same ? 1 : 0);
    if (!is_same && !tolerance.parted) ADD_FAILURE() << "parted from the golden answer at " << end;
    if (!is_same && tolerance.parted) tolerance.parted(name, static_cast<size_t>(end));

    // Returns the number of tokens known before each round. Counts in `count` only rounds whose accepted and
    // chosen tokens all lie before `end`.
    const auto starts_of = [&](auto num_rounds, const auto& num_right, AcceptedDrafts& count) {
      std::vector<ptrdiff_t> starts;
      ptrdiff_t known = 1;
      for (size_t round = 0; round < num_rounds && known + num_right(round) < end; ++round) {
        starts.push_back(known);
        count.num_accepted += num_right(round);
        ++count.num_rounds;
        known += num_right(round) + 1;
      }
      return starts;
    };
    const std::vector<ptrdiff_t> golden_starts = starts_of(
        accepted.size(), [&](size_t round) { return accepted[round]; }, all.golden);
    const std::vector<ptrdiff_t> found_starts = starts_of(
        run.rounds.size(), [&](size_t round) { return run.rounds[round].num_right; }, all.found);
    if (!tolerance.draft_gap) continue;
    for (size_t round = 0; round < found_starts.size(); ++round) {
      const auto at = std::find(golden_starts.begin(), golden_starts.end(), found_starts[round]);
      if (at == golden_starts.end()) continue;
      const auto first = static_cast<size_t>(at - golden_starts.begin()) * kDraftDepth;
      const std::vector<Draft>& found = run.rounds[round].drafts;
      EXPECT_EQ(found.size(), size_t{kDraftDepth});
      for (size_t place = 0; place < found.size(); ++place) {
        ++all.num_drafts_compared;
        EXPECT_TRUE(found[place].probability > 0 && found[place].probability <= 1)
            << found[place].probability;
        if (found[place].token == drafts[first + place]) continue;
        EXPECT_LE(gaps[first + place], *tolerance.draft_gap) << "round " << round << ", draft " << place;
        break;
      }
    }
  }
  return all;
}

}  // namespace nibble
