// Tests that backends instantiate. With the bundled checkpoint drafts must change nothing: mixed requests
// have the same tokens, log-probabilities, pieces of text and ends with every drafter as without drafts, in
// batches and alone, when pages run out and when requests are cancelled.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "backend/backend.h"
#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "engine/engine.h"
#include "grammar/languages/schema/json_schema.h"
#include "grammar/matching/text_constraint.h"
#include "model/draft_head/draft_head.h"
#include "model/weights.h"
#include "tests/engine/answers.h"
#include "tests/engine/toy_drafter.h"
#include "tests/folders.h"

namespace nibble {

struct SpeculatingBackend {
  const char* name;
  std::unique_ptr<Backend> (*make)(std::shared_ptr<const Weights>, const BackendOptions&);
  size_t num_requests;
  int max_tokens;
  bool is_slow;  // too few requests run for every drafter to have both right and wrong drafts
};

class SpeculationOnBackend : public testing::TestWithParam<SpeculatingBackend> {
 protected:
  using Tokens = std::vector<TokenId>;
  struct Asked {
    GenerationRequest request;
    int num_choices{1};
    size_t cancel_after{0};  // number of tokens; 0: the request is not cancelled
  };
  struct Served {
    std::vector<Answer> answers;
    EngineState state;
  };

  static const std::shared_ptr<const Weights>& weights() {
    static const auto tiny =
        std::make_shared<const Weights>(open_weights(test::source_path("models/tiny-gpt-oss")));
    return tiny;
  }
  static const Tokenizer& tokenizer() {
    static const Tokenizer tiny = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
    return tiny;
  }

  // Returns chats and tool calls of the evaluation, and prose, with every parameter that drafts could affect.
  static std::vector<Asked> mixed_requests(size_t count, int max_tokens) {
    static const std::string tasks = read_text_file(test::source_path("tests/golden/eval/tasks.jsonl"));
    static const grammar::VocabularyTrie vocabulary(tokenizer());
    std::vector<std::string> prompts;
    std::istringstream lines(tasks);
    for (std::string line; std::getline(lines, line);)
      prompts.push_back(nlohmann::json::parse(line)["prompt"]);
    std::mt19937 random(11);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    std::vector<Asked> all;
    for (size_t n = 0; n < count; ++n) {
      Asked& asked = all.emplace_back();
      GenerationRequest& request = asked.request;
      const std::string text =
          below(4) == 0 ? std::string("It was a dark and stormy night. It was a dark and stormy night. It ")
                        : prompts[static_cast<size_t>(below(static_cast<int>(prompts.size())))];
      request.prompt = tokenizer().encode(text, SpecialTokens::kRecognise);
      request.stop.max_tokens = 1 + below(max_tokens);
      SampleParams& sample = request.sample;
      sample.seed = random();
      if (below(2) == 0) sample.temperature = 0.2f + 0.1f * static_cast<float>(below(14));
      if (below(3) == 0) sample.top_p = 0.8f;
      if (below(4) == 0) sample.top_k = 1 + below(30);
      if (below(4) == 0) sample.repetition_penalty = 1.2f;
      if (below(4) == 0) sample.presence_penalty = 0.7f;
      if (below(4) == 0) sample.frequency_penalty = -0.4f;
      if (below(4) == 0) sample.logit_bias = {{below(4000), 4.0f}, {below(4000), -50.0f}};
      if (below(3) == 0) sample.num_logprobs = below(6);
      if (below(3) == 0) request.stop.strings = {"the ", "42", "er"};
      if (below(3) == 0) request.stop.tokens = {below(300), tokenizer().special("<|return|>").value()};
      if (below(5) == 0) request.stop.min_tokens = std::min(6, request.stop.max_tokens - 1);
      if (below(5) == 0) request.bans.runs = {{below(4000)}, {below(300), below(300)}};
      if (below(8) == 0) request.prompt_logprobs = 1;
      if (below(5) == 0) {
        request.stop.tokens = {tokenizer().special("<|return|>").value()};
        request.constraint = std::make_shared<grammar::TextConstraint>(
            grammar::compile_json_schema(
                Json::parse(
                    R"({"type": "array", "minItems": 2, "maxItems": 4, "items": {"type": "object",
                    "required": ["name", "size"], "additionalProperties": false, "properties":
                    {"name": {"enum": ["cat", "caterpillar", "dog"]}, "size": {"type": "integer"}}}})"))
                .grammar,
            vocabulary, request.stop.tokens);
      }
      if (below(10) == 0) asked.num_choices = 4;
      if (below(8) == 0) asked.cancel_after = static_cast<size_t>(1 + below(8));
      if (below(8) == 0)
        request.prediction = std::make_shared<speculative::Prediction>(speculative::Prediction{
            Tokens{}, tokenizer().encode("a dark and stormy night. It was late", SpecialTokens::kOrdinary)});
    }
    return all;
  }

  static std::shared_ptr<const DraftHead> head_of(const speculative::SpeculationOptions& speculation) {
    if (speculation.draft_head.empty()) return nullptr;
    return open_draft_head(speculation.draft_head, weights()->config);
  }

  // Returns options with which the model drafts for itself, in small steps and with too few pages for all
  // texts.
  static speculative::DraftModelOptions draft_model_of(const speculative::SpeculationOptions& speculation,
                                                       std::shared_ptr<const Weights> drafting) {
    if (speculation.draft_model.empty()) return {};
    speculative::DraftModelOptions model{.num_pages = 70, .max_batch_tokens = 24};
    model.backend = GetParam().make(
        std::move(drafting),
        {.num_pages = model.num_pages, .max_batch_tokens = model.max_batch_tokens, .num_threads = 1});
    return model;
  }

  // Returns NIBBLE_MIXED_REQUESTS if it is set, else the backend's num_requests. A thousand requests take
  // minutes.
  static size_t num_requests() {
    const char* const asked = std::getenv("NIBBLE_MIXED_REQUESTS");
    return asked ? std::stoul(asked) : GetParam().num_requests;
  }

  // Submits all requests at once.
  Served serve(const std::vector<Asked>& all, speculative::SpeculationOptions speculation,
               int num_pages = 260, int max_sequences = 6) const {
    speculation.model = draft_model_of(speculation, weights());
    const EngineOptions options{.num_pages = num_pages,
                                .max_batch_tokens = 64,
                                .max_sequences = max_sequences,
                                .max_context = 600,
                                .speculation = speculation};
    const std::unique_ptr<Backend> backend =
        GetParam().make(weights(), {.num_pages = options.num_pages,
                                    .max_batch_tokens = options.max_batch_tokens,
                                    .num_threads = 1,
                                    .draft_head = head_of(speculation)});
    Engine engine(*backend, tokenizer(), options);
    Answers answers(engine);
    // each with the number of tokens after which it is cancelled
    std::vector<std::pair<RequestId, size_t>> ids;
    for (const Asked& asked : all)
      for (const RequestId id : engine.submit_choices(asked.request, asked.num_choices))
        ids.emplace_back(id, asked.cancel_after);
    for (size_t num_ended = 0; num_ended < ids.size();) {
      answers.take();
      num_ended = 0;
      for (auto& [id, cancel_after] : ids) {
        num_ended += answers[id].has_ended();
        if (cancel_after == 0 || answers[id].tokens.size() < cancel_after) continue;
        engine.cancel(id);
        cancel_after = 0;
      }
    }
    Served served;
    for (const auto& [id, _] : ids) served.answers.push_back(answers[id]);
    served.state = engine.state();
    return served;
  }

  static void expect_equal(const std::vector<SampledToken>& a, const std::vector<SampledToken>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t n = 0; n < a.size(); ++n) {
      EXPECT_EQ(a[n].token, b[n].token);
      EXPECT_EQ(std::memcmp(&a[n].logprob, &b[n].logprob, sizeof(float)), 0);
      ASSERT_EQ(a[n].top.size(), b[n].top.size());
      for (size_t k = 0; k < a[n].top.size(); ++k)
        EXPECT_EQ(std::memcmp(&a[n].top[k], &b[n].top[k], sizeof(TokenLogprob)), 0);
    }
  }
  static void expect_same(const Served& drafted, const Served& plain) {
    ASSERT_EQ(drafted.answers.size(), plain.answers.size());
    for (size_t i = 0; i < plain.answers.size(); ++i) {
      SCOPED_TRACE(i);
      Answer x = drafted.answers[i], y = plain.answers[i];
      ASSERT_EQ(x.failed.has_value(), y.failed.has_value());
      if (x.failed) {
        EXPECT_EQ(x.failed->message, y.failed->message);
      }
      const auto was_cancelled = [](const Answer& answer) {
        return answer.finished && answer.finished->reason == FinishReason::kCancelled;
      };
      // Thread timing decides after which token a request is cancelled. So only the tokens that both answers
      // have are compared.
      if (was_cancelled(x) || was_cancelled(y)) {
        const size_t num = std::min(x.tokens.size(), y.tokens.size());
        for (Answer* answer : {&x, &y})
          answer->tokens.resize(num), answer->sampled.resize(num), answer->pieces.resize(num);
      } else if (x.finished) {
        EXPECT_EQ(x.text, y.text);
        EXPECT_EQ(x.finished->reason, y.finished->reason);
        EXPECT_EQ(x.finished->num_output_tokens, y.finished->num_output_tokens);
      }
      ASSERT_EQ(x.tokens, y.tokens);
      EXPECT_EQ(x.pieces, y.pieces);
      expect_equal(x.sampled, y.sampled);
      expect_equal(x.prompt, y.prompt);
    }
  }

  static speculative::SpeculationOptions drafter(std::string_view name, bool by_cost, int max_drafts,
                                                 int topk = 1) {
    speculative::SpeculationOptions options{.by_cost = by_cost, .max_drafts = max_drafts, .topk = topk};
    options.ngram = {.least = 2, .most = 8};
    if (name == "all" || name == speculative::kHeadDrafter)
      options.draft_head = test::source_path("models/tiny-gpt-oss-eagle3/specforge");
    if (name == speculative::kModelDrafter) options.draft_model = "itself";
    for (const speculative::DrafterRow& row : speculative::drafter_table())
      if (name == "all" || row.name == name || row.by_request) options.drafters.emplace_back(row.make);
    return options;
  }
  // Returns a function that predicts every answer exactly.
  static NextToken oracle(const std::vector<Asked>& all, const Served& plain) {
    std::vector<Tokens> texts;
    size_t answer = 0;
    for (const Asked& asked : all) {
      for (int n = 0; n < asked.num_choices; ++n) {
        Tokens& text = texts.emplace_back(asked.request.prompt);
        const Tokens& output = plain.answers[answer++].tokens;
        text.insert(text.end(), output.begin(), output.end());
      }
    }
    return [texts](std::span<const TokenId> context) -> TokenId {
      for (const Tokens& text : texts)
        if (text.size() > context.size() && std::equal(context.begin(), context.end(), text.begin()))
          return text[context.size()];
      return -1;
    };
  }
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SpeculationOnBackend);

TEST_P(SpeculationOnBackend, MixedRequestsAreAnsweredToTheBitAsWithout) {
  const std::vector<Asked> all = mixed_requests(num_requests(), GetParam().max_tokens);
  const Served plain = serve(all, {});
  EXPECT_EQ(plain.state.drafts.num_drafts, 0u);
  const Served known = serve(all, drafts_of(oracle(all, plain), 9));
  expect_same(known, plain);
  EXPECT_GT(known.state.drafts.num_accepted, known.state.drafts.num_tokens / 3);
  EXPECT_LT(known.state.drafts.num_accepted, known.state.drafts.num_tokens);
  for (const char* name : {"model", "eagle3", "ngram", "suffix"}) {
    SCOPED_TRACE(name);
    const Served drafted = serve(all, drafter(name, false, 6));
    expect_same(drafted, plain);
    const bool has_network = name == speculative::kHeadDrafter || name == speculative::kModelDrafter;
    if (has_network) {
      EXPECT_GT(drafted.state.drafts.num_accepted, drafted.state.drafts.num_tokens / 4);
    }
    if (GetParam().is_slow && has_network) continue;
    if (GetParam().is_slow) break;
    EXPECT_GT(drafted.state.drafts.num_accepted, 0u);
    EXPECT_LT(drafted.state.drafts.num_accepted, drafted.state.drafts.num_tokens);
  }
  expect_same(serve(all, drafter("all", true, 16)), plain);
  expect_same(serve(all, drafter("model", true, 16)), plain);
}

TEST_P(SpeculationOnBackend, MixedRequestsAreAnsweredToTheBitWithTrees) {
  const std::vector<Asked> all = mixed_requests(num_requests(), GetParam().max_tokens);
  const Served plain = serve(all, {});
  const Served known = serve(all, drafts_of(oracle(all, plain), 12, 3));
  expect_same(known, plain);
  EXPECT_GT(known.state.drafts.num_accepted, known.state.drafts.num_tokens / 8);
  // Runs one request after another, each to its end, so that the suffix drafter finds the same finished
  // answers in every run.
  std::vector<Asked> in_turn(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 3));
  for (Asked& asked : in_turn) asked.cancel_after = 0;
  uint64_t num_accepted_in_trees = 0, num_accepted_in_chains = 0;
  for (const char* name : {"model", "eagle3", "suffix"}) {
    SCOPED_TRACE(name);
    expect_same(serve(all, drafter(name, false, 8, 3)), plain);
    if (GetParam().is_slow) break;
    const auto counts = [&](int topk) {
      return serve(in_turn, drafter(name, false, 8, topk), 200, 1).state.drafts;
    };
    const speculative::DraftCounts trees = counts(3), chains = counts(1);
    num_accepted_in_trees += trees.num_accepted;
    num_accepted_in_chains += chains.num_accepted;
    // Where a chain's draft is wrong, the tree may have the right one as a sibling. The suffix drafter is
    // left out: it proposes only where it finds a match, so after a longer accepted path it makes its next
    // proposals at other positions than with chains.
    const auto first_share = [](const speculative::DraftCounts& drafts) {
      return static_cast<double>(drafts.accepted_at[0]) / static_cast<double>(drafts.num_drafts);
    };
    if (std::string_view(name) != "suffix") {
      EXPECT_GT(first_share(trees), first_share(chains));
    }
  }
  if (!GetParam().is_slow) {
    EXPECT_GT(num_accepted_in_trees, num_accepted_in_chains) << "of as many drafts";
  }
  expect_same(serve(all, drafter("all", true, 16, 2)), plain);
}

TEST_P(SpeculationOnBackend, AndAloneAndWithPagesThatRunOut) {
  std::vector<Asked> all = mixed_requests(GetParam().is_slow ? 4 : 24, 1);
  for (Asked& asked : all) {
    asked.request.prompt.resize(std::min<size_t>(asked.request.prompt.size(), 40));
    asked.request.stop = {.max_tokens = 60};
    asked.request.constraint = nullptr;
    asked.cancel_after = 0;
  }
  const Served plain = serve(all, {});
  expect_same(serve(all, drafts_of(oracle(all, plain), 5), 200, 1), plain);
  const Served narrow = serve(all, drafts_of(oracle(all, plain), 5), 9);
  expect_same(narrow, plain);
  if (!GetParam().is_slow) {
    EXPECT_GT(narrow.state.counts.num_preemptions, 0u);
  }
  expect_same(serve(all, drafts_of(oracle(all, plain), 7, 2), 200, 1), plain);
  expect_same(serve(all, drafts_of(oracle(all, plain), 7, 2), 9), plain);
}

// Half of the drafts are right: tokens are the same as without drafts, and each accepted draft saves a step.
TEST_P(SpeculationOnBackend, WhatIsAcceptedTakesNoStep) {
  Asked asked;
  asked.request.prompt = tokenizer().encode("It was a dark and stormy night.", SpecialTokens::kOrdinary);
  asked.request.stop.max_tokens = 40;
  const Served plain = serve({asked}, {});
  const Served drafted = serve({asked}, drafts_of(oracle({asked}, plain), 4));
  expect_same(drafted, plain);
  const FinishedEvent& finished = drafted.answers[0].finished.value();
  EXPECT_EQ(plain.answers[0].finished->num_steps, 40);
  EXPECT_EQ(finished.num_steps + static_cast<int>(finished.drafts.num_accepted), 40);
  EXPECT_GT(finished.drafts.num_accepted, 10u);
}

// A model drafts for itself: with greedy sampling every draft is right.
TEST_P(SpeculationOnBackend, AModelKnowsItsOwnAnswers) {
  std::vector<Asked> all = mixed_requests(GetParam().is_slow ? 2 : 12, 1);
  for (Asked& asked : all) {
    asked.request.sample = {};
    asked.request.stop = {.max_tokens = 30};
    asked.request.bans = {};
    asked.request.constraint = nullptr;
    asked.request.prediction = nullptr;
    asked.cancel_after = 0;
    asked.num_choices = 1;
  }
  const Served plain = serve(all, {});
  const Served drafted = serve(all, drafter("model", false, 4));
  expect_same(drafted, plain);
  EXPECT_EQ(drafted.state.drafts.num_accepted, drafted.state.drafts.num_tokens);
  EXPECT_GT(drafted.state.drafts.num_tokens, 10 * all.size());
}

}  // namespace nibble
