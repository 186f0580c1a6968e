// Tests that batches are encoded as bytes and decoded again, and that invalid bytes are refused.
#include "nodes/batch_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/numbers/random.h"
#include "tests/error_of.h"

namespace nibble::nodes {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr Room kRoom{.num_pages = 30, .max_batch_tokens = 64};

Config batch_config() {
  Config config;
  config.vocab = 1000;
  config.window = 16;
  config.max_context = 4096;
  return config;
}

// A step with a prompt chunk at positions 50 to 53, and a token of another sequence at position 3.
struct Steps {
  std::vector<TokenId> prompt{5, 6, 7, 999}, chat{8};
  std::vector<PageId> full{PageId{3}, PageId{19}}, sliding{PageId{9}}, other_full{PageId{0}},
      other_sliding{PageId{1}};
  std::vector<OutputRow> outputs{{.token_index = 1, .prompt = {}, .output = {}},
                                 {.token_index = 3, .prompt = {}, .output = {}}};
  std::vector<Run> runs{
      {.tokens = prompt, .first_position = 50, .full = {full}, .sliding = {sliding, 1}, .outputs = outputs},
      {.tokens = chat, .first_position = 3, .full = {other_full}, .sliding = {other_sliding}, .outputs = {}}};
};

std::vector<int> token_indices(const Run& run) {
  std::vector<int> indices;
  for (const OutputRow& row : run.outputs) indices.push_back(row.token_index);
  return indices;
}

TEST(BatchCode, GivesBackWhatAFollowerNeeds) {
  const Steps steps;
  const Bytes bytes = encode({.runs = steps.runs});
  EXPECT_LE(bytes.size(), most_bytes(kRoom, batch_config()));
  const ReceivedBatch received(bytes, kRoom, batch_config());
  const std::span<const nibble::Run> runs = received.view().runs;
  ASSERT_EQ(runs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const nibble::Run &got = runs[i], &sent = steps.runs[i];
    EXPECT_THAT(got.tokens, ElementsAreArray(sent.tokens));
    EXPECT_EQ(got.first_position, sent.first_position);
    EXPECT_THAT(got.full.pages, ElementsAreArray(sent.full.pages));
    EXPECT_EQ(got.full.first_page, sent.full.first_page);
    EXPECT_THAT(got.sliding.pages, ElementsAreArray(sent.sliding.pages));
    EXPECT_EQ(got.sliding.first_page, sent.sliding.first_page);
    EXPECT_EQ(token_indices(got), token_indices(sent));
  }
}

std::string refusal_of(const Steps& steps) {
  return error_of([&] { ReceivedBatch(encode({.runs = steps.runs}), kRoom, batch_config()); });
}

TEST(BatchCode, RefusesWhatABackendCouldNotRun) {
  EXPECT_EQ(refusal_of({}), "accepted");
  Steps steps;
  steps.prompt[0] = 1000;
  EXPECT_THAT(refusal_of(steps), HasSubstr("token 1000"));
  steps = {};
  steps.full[1] = PageId{30};
  EXPECT_THAT(refusal_of(steps), HasSubstr("page 30"));
  steps = {};
  steps.sliding[0] = PageId{31};
  EXPECT_THAT(refusal_of(steps), HasSubstr("page 31"));
  steps = {};
  steps.runs[0].first_position = 61;  // the run's last token would be in a third page
  EXPECT_THAT(refusal_of(steps), HasSubstr("pages 0 to 1 do not cover positions"));
  steps = {};
  steps.runs[0].first_position = 40;  // the run's window reaches position 25, in the first page
  EXPECT_THAT(refusal_of(steps), HasSubstr("pages 1 to 1 do not cover positions"));
  steps = {};
  steps.runs[0].first_position = 4096;
  EXPECT_THAT(refusal_of(steps), HasSubstr("position 4096"));
  steps = {};
  steps.outputs[1].token_index = 4;
  EXPECT_THAT(refusal_of(steps), HasSubstr("output 4"));
  steps = {};
  steps.outputs[1].token_index = 1;
  EXPECT_THAT(refusal_of(steps), HasSubstr("ascend"));
  steps = {};
  steps.runs[0].tokens = {};
  EXPECT_THAT(refusal_of(steps), HasSubstr("no tokens"));
  Steps many;
  many.prompt.assign(65, 1);
  many.runs[0].tokens = many.prompt;
  EXPECT_THAT(refusal_of(many), HasSubstr("at most 64 rows"));
}

TEST(BatchCode, RefusesBytesThatAreCutShortOrTooMany) {
  const Bytes whole = encode({.runs = Steps{}.runs});
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(error_of([&] { ReceivedBatch(std::span(whole).first(size), kRoom, batch_config()); }),
              "accepted")
        << size;
  Bytes longer = whole;
  longer.resize(whole.size() + 4);
  EXPECT_NE(error_of([&] { ReceivedBatch(longer, kRoom, batch_config()); }), "accepted");
}

}  // namespace
}  // namespace nibble::nodes
