// Tests steps that follow drafts and are launched before the host knows which of these drafts are right.
// Needs a GPU, or an emulated GPU.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "backend/cuda/cuda_backend.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "tests/backend/cuda/pretended.h"
#include "tests/backend/draft_golden.h"

namespace nibble::cuda {
namespace {

constexpr int kDrafts{3}, kPages{128};
#ifdef NIBBLE_EMULATED_GPU
constexpr int kSteps{7};
#else
constexpr int kSteps{60};
#endif

std::unique_ptr<Backend> backend_with_head() {
  BackendOptions options;
  options.num_pages = kPages;
  options.max_batch_tokens = 256;
  options.num_threads = 1;
  options.draft_head = open_golden_head(kHeadGoldens[0]);
  return make(model_of_heads(), options, pretended());
}

// The results of one sequence up to now.
struct Told {
  std::vector<TokenId> known{};
  int num_to_draft{0};
  std::vector<SampledToken> chosen{};  // all tokens returned by the backend
  std::vector<Drafts> drafts{};        // the new drafts of each step
};

// A sequence fed step by step: each step runs the new known tokens and the drafts after them.
struct Fed : Told {
  Fed(Told given, const SampleParams& params, SequencePages&& own)
      : Told(std::move(given)), sample(params), pages(std::move(own)) {}
  SampleParams sample;
  SequencePages pages;
};

// A launched step: for each sequence, the tokens of its run and its outputs.
struct FedStep {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<OutputRow>> outputs;
  std::vector<int> first_outputs, num_drafted;
};

// Runs greedy and sampled sequences together, with drafts and without. `ahead`: each step is launched before
// the results of the previous step are read.
std::vector<Told> run(bool ahead) {
  const std::unique_ptr<Backend> backend = backend_with_head();
  PagePool pool(kPages);
  const HeadGoldenData golden(kHeadGoldens[0]);
  std::deque<Fed> all;
  const auto add = [&](size_t prompt, const SampleParams& sample, int num_to_draft) {
    const auto ids = golden.tensor<int32_t>(golden.prompts()[prompt] + ".ids");
    const auto tokens = ids.first(std::min<size_t>(ids.size(), 40 + 11 * all.size()));
    all.emplace_back(Told{.known = {tokens.begin(), tokens.end()}, .num_to_draft = num_to_draft}, sample,
                     SequencePages(pool, backend->config().window));
  };
  add(0, {}, kDrafts);
  add(1, {.temperature = 0.6f, .seed = 3, .num_logprobs = 2}, kDrafts);
  add(1, {.temperature = 0.6f, .top_p = 0.9f, .logit_bias = {{7, 1.0f}}, .seed = 4}, 1);
  add(0, {.repetition_penalty = 1.2f}, 0);

  std::vector<FedStep> under_way;
  const auto launch = [&] {
    FedStep step;
    std::vector<Run> runs;
    int num_outputs = 0;
    const FedStep* last = under_way.empty() ? nullptr : &under_way.back();
    for (size_t n = 0; n < all.size(); ++n) {
      Fed& fed = all[n];
      const bool is_first = fed.drafts.empty() && !last;
      const int num_drafted = is_first ? 0 : fed.num_to_draft;
      const int first = fed.pages.length();
      std::vector<TokenId>& tokens = step.tokens.emplace_back();
      if (last)
        tokens.resize(static_cast<size_t>(1 + num_drafted));
      else
        tokens.assign(fed.known.begin() + first, fed.known.end());
      const auto num_known = static_cast<int>(tokens.size()) - (last ? num_drafted : 0);
      for (int draft = 0; draft < num_drafted && !last; ++draft)
        tokens.push_back(fed.drafts.back().tokens[static_cast<size_t>(draft)].token);
      std::vector<OutputRow>& outputs = step.outputs.emplace_back();
      const std::span<const TokenId> known(fed.known);
      for (int row = num_known - 1; row < static_cast<int>(tokens.size()); ++row)
        outputs.push_back({.token_index = row,
                           .sample = &fed.sample,
                           .prompt = known.first(20),
                           .output = known.subspan(20)});
      EXPECT_TRUE(fed.pages.reserve(num_known + 2 * kDrafts + 1));
      Run run{.tokens = tokens,
              .first_position = first,
              .full = fed.pages.full(),
              .sliding = fed.pages.sliding(),
              .drafted = {.count = num_drafted}};
      if (fed.num_to_draft > 0) run.draft_request = {.num_tokens = fed.num_to_draft};
      if (last) run.ahead = {.output_row = last->first_outputs[n], .num_unsure = last->num_drafted[n]};
      runs.push_back(run);
      step.first_outputs.push_back(num_outputs);
      step.num_drafted.push_back(num_drafted);
      num_outputs += static_cast<int>(outputs.size());
      fed.pages.advance(num_known);
    }
    for (size_t n = 0; n < all.size(); ++n) runs[n].outputs = step.outputs[n];
    backend->launch({.runs = runs});
    under_way.push_back(std::move(step));
  };
  const auto wait = [&] {
    const StepResult result = backend->wait();
    const FedStep step = std::move(under_way.front());
    under_way.erase(under_way.begin());
    for (size_t n = 0; n < all.size(); ++n) {
      Fed& fed = all[n];
      auto chosen = result.outputs.begin() + step.first_outputs[n];
      fed.known.push_back(chosen->token);
      fed.chosen.push_back(*chosen);
      int num_right = 0;
      while (num_right < step.num_drafted[n] &&
             fed.drafts.back().tokens[static_cast<size_t>(num_right)].token == fed.known.back()) {
        fed.known.push_back((++chosen)->token);
        fed.chosen.push_back(*chosen);
        ++num_right;
      }
      fed.pages.advance(num_right);
      fed.drafts.push_back(result.drafts[n]);
    }
  };
  launch();
  for (int n = 1; n < kSteps; ++n) {
    if (!ahead) wait();
    launch();
    if (ahead) wait();
  }
  wait();
  return {all.begin(), all.end()};
}

TEST(CudaDraftsAhead, AStepAfterUnknownDraftsHasTheBitsOfOneAfterKnownDrafts) {
  const std::vector<Told> expected = run(false), found = run(true);
  for (size_t n = 0; n < expected.size(); ++n) {
    SCOPED_TRACE(n);
    EXPECT_EQ(found[n].known, expected[n].known);
    ASSERT_EQ(found[n].chosen.size(), expected[n].chosen.size());
    const size_t num_more = expected[n].chosen.size() - kSteps;  // tokens added by right drafts
    EXPECT_EQ(num_more > 0, expected[n].num_to_draft > 0);
    for (size_t i = 0; i < expected[n].chosen.size(); ++i) {
      const SampledToken &a = found[n].chosen[i], &b = expected[n].chosen[i];
      EXPECT_EQ(std::memcmp(&a.logprob, &b.logprob, sizeof a.logprob), 0) << i;
      ASSERT_EQ(a.top.size(), b.top.size());
      for (size_t k = 0; k < a.top.size(); ++k)
        EXPECT_EQ(std::memcmp(&a.top[k], &b.top[k], sizeof a.top[k]), 0) << i;
    }
    ASSERT_EQ(found[n].drafts.size(), expected[n].drafts.size());
    for (size_t step = 0; step < expected[n].drafts.size(); ++step) {
      const Drafts &a = found[n].drafts[step], &b = expected[n].drafts[step];
      EXPECT_EQ(a.first_position, b.first_position) << step;
      ASSERT_EQ(a.tokens.size(), b.tokens.size());
      for (size_t i = 0; i < b.tokens.size(); ++i) {
        EXPECT_EQ(a.tokens[i].token, b.tokens[i].token) << step;
        EXPECT_EQ(a.tokens[i].probability, b.tokens[i].probability) << step;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::cuda
