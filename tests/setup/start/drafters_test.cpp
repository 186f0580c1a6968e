#include "setup/start/drafters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setup/model/model.h"
#include "setup/plan/memory.h"
#include "setup/start/resolve.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble {
namespace {

using testing::HasSubstr;

// Opens the drafters that the flags request, for a given model. Returns the error text.
std::string refusal_beside(const char* model, const char* how, const char* tokenizer = nullptr) {
  Settings settings;
  settings.backend = "reference";
  settings.speculate = how;
  if (tokenizer) settings.tokenizer = tokenizer;
  settings.models = test::source_path("models");
  ResolvedSettings setup = resolve(settings);
  return error_of([&] { open_drafters(setup, open_model(model, setup.places), {1024, 4}); });
}

TEST(DraftModel, HasTheVocabularyOfTheModelItDraftsFor) {
  EXPECT_THAT(refusal_beside("tiny", "model=synthetic:gpt-oss-20b"),
              HasSubstr("synthetic:gpt-oss-20b has a vocabulary of 201088 tokens and tiny one of 4096"));
  // Both vocabularies have the same number of tokens, but different tokens: synthetic weights have a
  // vocabulary of the 256 bytes.
  const std::string config = "synthetic:" + test::source_path("models/tiny-gpt-oss/config.json");
  EXPECT_THAT(refusal_beside("tiny", ("model=" + config).c_str()), HasSubstr("differs between synthetic:"));
  EXPECT_EQ(refusal_beside(config.c_str(), ("model=" + config).c_str()), "accepted");
  EXPECT_THAT(refusal_beside("tiny", "model=nowhere"), HasSubstr("nowhere"));
}

TEST(DraftModel, TakesMemoryInAdditionToTheModel) {
  Settings settings;
  settings.backend = "reference";
  settings.speculate = "model=tiny";
  settings.models = test::source_path("models");
  ResolvedSettings setup = resolve(settings);
  const Model model = open_model("tiny", setup.places);
  const size_t budget = memory_budgets(setup).front();
  open_drafters(setup, model, {1024, 4});
  EXPECT_GT(setup.draft_model_bytes, weight_bytes(model.config));
  EXPECT_LT(memory_budgets(setup).front(), budget);
  EXPECT_GT(setup.draft_model->options.num_pages, 4 * 1024 / kPageTokens);
  // The draft model's cache is limited for any number of sequences.
  open_drafters(setup, model, {131072, 4096});
  const auto& [drafting, room] = *setup.draft_model;
  EXPECT_LE(setup.backend->memory.plan(drafting.config, room, setup.own).kv_bytes, kMostDraftCacheBytes);
  EXPECT_GE(room.num_pages, 131072 / kPageTokens);
}

}  // namespace
}  // namespace nibble
