// Compares the forward pass with golden data of other implementations: transformers in float32, and an
// implementation in double.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "model/golden/golden.h"
#include "model/weights.h"
#include "reference/array.h"
#include "reference/forward.h"
#include "tests/folders.h"

namespace nibble::reference {
namespace {

const std::filesystem::path kRoot{test::source_path()};
constexpr GoldenTolerance kTolerance{};

// A sequence, its pages, and its answer so far.
struct Sequence {
  SequencePages pages;
  std::vector<TokenId> answer;
};

class Model {
 public:
  explicit Model(const std::filesystem::path& folder)
      : weights_(open_weights(folder)),
        rope_(make_rope_table(weights_.config.rope, weights_.config.head_dim)),
        pool_(kNumPages),
        kv_(weights_.config, kNumPages) {}

  Sequence start() { return {SequencePages(pool_, weights_.config.window), {}}; }

  // Runs a new sequence and returns the logits of every position. The likeliest next token becomes the first
  // token of the continuation. `hidden_states` gets those of the last `num_hidden_rows` positions, in the
  // layout of the golden data.
  Array<float, 2> prefill(Sequence& sequence, const std::vector<TokenId>& ids, int num_hidden_rows,
                          std::vector<float>& hidden_states) {
    EXPECT_TRUE(sequence.pages.reserve(static_cast<int>(ids.size())));
    std::vector<BatchRow> rows;
    std::vector<int> outputs;
    for (const TokenId id : ids) {
      const int t = static_cast<int>(rows.size());
      rows.push_back({id, t, sequence.pages.full(), sequence.pages.sliding()});
      outputs.push_back(t);
    }
    Array<float, 2> logits({std::ssize(ids), weights_.config.vocab});
    forward({weights_, rope_, rows, outputs, kv_, logits, [&](int, View<const float, 2> hidden) {
               for (ptrdiff_t t = std::ssize(ids) - num_hidden_rows; t < std::ssize(ids); ++t)
                 hidden_states.insert(hidden_states.end(), hidden.row(t), hidden.row(t) + hidden.shape[1]);
             }});
    sequence.pages.advance(static_cast<int>(ids.size()));
    sequence.answer.push_back(likeliest(logits.view().row(std::ssize(ids) - 1)));
    return logits;
  }

  // Decodes one more token for every sequence.
  void decode(std::vector<Sequence>& sequences) {
    std::vector<BatchRow> rows;
    std::vector<int> outputs;
    for (Sequence& sequence : sequences) {
      EXPECT_TRUE(sequence.pages.reserve(1));
      outputs.push_back(static_cast<int>(rows.size()));
      rows.push_back(
          {sequence.answer.back(), sequence.pages.length(), sequence.pages.full(), sequence.pages.sliding()});
    }
    const Array<float, 2> logits({std::ssize(sequences), weights_.config.vocab});
    forward({weights_, rope_, rows, outputs, kv_, logits});
    for (size_t s = 0; s < sequences.size(); ++s) {
      sequences[s].pages.advance(1);
      sequences[s].answer.push_back(likeliest(logits.view().row(static_cast<ptrdiff_t>(s))));
    }
  }

 private:
  // two pages per 32 positions (full and sliding layers): 12,800 positions, enough for all prompts with 64
  // more tokens each
  static constexpr int kNumPages{800};

  TokenId likeliest(const float* logits) const {
    return static_cast<TokenId>(std::max_element(logits, logits + weights_.config.vocab) - logits);
  }

  Weights weights_;
  RopeTable rope_;
  PagePool pool_;
  KvCache kv_;
};

struct Figures {
  std::string prompt;
  size_t num_tokens;
  bool has_hidden;
  GoldenDifference difference;
};

std::vector<Figures> measure(const std::filesystem::path& model_folder, const GoldenSet& golden) {
  Model model(model_folder);
  std::vector<Figures> figures;
  std::vector<Sequence> sequences;
  for (const GoldenPrompt& prompt : golden.prompts) {
    std::vector<float> hidden;
    sequences.push_back(model.start());
    const Array<float, 2> logits =
        model.prefill(sequences.back(), prompt.ids, prompt.num_hidden_rows, hidden);
    const size_t num_logits = prompt.ids.size() * static_cast<size_t>(logits.view().shape[1]);
    const GoldenAnswer answer{.logits = {logits.view().data, num_logits}, .greedy = {}, .hidden = hidden};
    figures.push_back(
        {prompt.name, prompt.ids.size(), !prompt.hidden.empty(), compare(prompt, answer, kTolerance)});
  }
  const size_t num_greedy = golden.prompts.front().greedy.size();
  for (size_t i = 1; i < num_greedy; ++i) model.decode(sequences);
  for (size_t p = 0; p < golden.prompts.size() && num_greedy > 0; ++p) {
    const GoldenAnswer answer{.logits = {}, .greedy = sequences[p].answer, .hidden = {}};
    const GoldenDifference continued = compare(golden.prompts[p], answer, kTolerance);
    figures[p].difference.greedy_at = continued.greedy_at;
    figures[p].difference.greedy_gap = continued.greedy_gap;
  }
  return figures;
}

void print(const std::vector<Figures>& figures) {
  fmt::print("{:28} {:>6} {:>12} {:>10} {:>10} {:>14}  {}\n", "prompt", "tokens", "logits relL2", "max logit",
             "max hidden", "top 5 wrong/of", "greedy");
  for (const auto& [prompt, num_tokens, has_hidden, d] : figures)
    fmt::print("{:28} {:6} {:12.2e} {:10.2e} {:>10} {:>14}  {}\n", prompt, num_tokens, d.relative_l2,
               d.max_logit, has_hidden ? fmt::format("{:.2e}", d.max_hidden) : "-",
               fmt::format("{}/{}", d.num_top_wrong, d.num_top_compared),
               d.greedy_at ? fmt::format("parts at {}, gap {:.1e}", *d.greedy_at, d.greedy_gap) : "same");
}

// Runs all golden prompts of the miniature model once, for all tests.
class GoldenOfTheMiniatureModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    golden = read_golden(kRoot / "tests/golden/golden.json");
    figures = measure(kRoot / "models/tiny-gpt-oss", golden);
    print(figures);
  }
  static inline GoldenSet golden;
  static inline std::vector<Figures> figures;
};

TEST_F(GoldenOfTheMiniatureModel, HasAllItsPrompts) { EXPECT_EQ(figures.size(), 23u); }

TEST_F(GoldenOfTheMiniatureModel, LastLogitsAgree) {
  for (const Figures& f : figures) EXPECT_LE(f.difference.relative_l2, kTolerance.relative_l2) << f.prompt;
}

TEST_F(GoldenOfTheMiniatureModel, TheLikeliestTokensOfEveryPositionAreTheSame) {
  int num_compared = 0;
  for (const Figures& f : figures) {
    EXPECT_EQ(f.difference.num_top_wrong, 0) << f.prompt;
    num_compared += f.difference.num_top_compared;
  }
  EXPECT_GT(num_compared, 25'000);  // of 29,950; the others are near ties
}

TEST_F(GoldenOfTheMiniatureModel, GreedyContinuationsAreTheSame) {
  for (const Figures& f : figures) EXPECT_EQ(f.difference.greedy_at, std::nullopt) << f.prompt;
}

TEST_F(GoldenOfTheMiniatureModel, HiddenStatesAfterEachLayerAgree) {
  int num_prompts = 0;
  for (const Figures& f : figures) {
    EXPECT_LE(f.difference.max_hidden, kTolerance.hidden) << f.prompt;
    num_prompts += f.has_hidden;
  }
  EXPECT_EQ(num_prompts, 11);
}

// Compares the logits of every position, for models of other shapes whose weights are large enough for sinks,
// biases and clamps to matter.
TEST(GoldenOfRandomModels, LogitsOfEveryPositionAgree) {
  for (const char* name : {"a", "b"}) {
    const std::filesystem::path folder = kRoot / "tests/golden/random" / name;
    const std::vector<Figures> figures = measure(folder, read_golden(folder / "golden.safetensors"));
    print(figures);
    ASSERT_EQ(figures.size(), 2u);
    for (const Figures& f : figures) EXPECT_LE(f.difference.relative_l2, kTolerance.relative_l2) << f.prompt;
  }
}

}  // namespace
}  // namespace nibble::reference
