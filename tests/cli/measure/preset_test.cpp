// Tests the runs of bench's presets and the times expected for them.
#include "cli/measure/preset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(std::string_view preset, bool has_draft_head = false) {
  std::vector<std::string> names;
  for (const PresetRun& run : preset_runs(preset, has_draft_head)) names.push_back(run.name);
  return names;
}

TEST(Preset, WithoutADraftHeadItsRunIsLeftOut) {
  EXPECT_THAT(names_of("spark"), ElementsAre("grid-bf16", "grid-mxfp4", "ladder-experts", "ladder-qkv-o",
                                             "ladder-lm-head", "ladder-fp8-kv", "prompt"));
  EXPECT_EQ(names_of("spark", true).back(), "prompt-draft-head");
  EXPECT_EQ(names_of("spark-small"), names_of("spark"));
}

TEST(Preset, NamedRunsAreDoneInTheirOrder) {
  EXPECT_THAT(names_of("spark:prompt,grid-bf16"), ElementsAre("prompt", "grid-bf16"));
}

TEST(Preset, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(error_of([] { names_of("sparc"); }), HasSubstr("spark, spark-small"));
  EXPECT_THAT(error_of([] { names_of("spark:grid"); }), AllOf(HasSubstr("'grid'"), HasSubstr("grid-bf16")));
  EXPECT_THAT(error_of([] { names_of("spark:prompt-draft-head"); }), HasSubstr("--draft-head"));
}

TEST(Preset, TheGridIsThatOfThePublishedComparison) {
  const std::vector<BenchTest> tests = preset_runs("spark:grid-bf16", false).front().tests();
  EXPECT_EQ(tests.size(), 5u * (5 + 5));
  EXPECT_EQ(name(tests.front()), "pp512");
  EXPECT_EQ(name(tests.back()), "tg256 @ d32768");
}

TEST(Preset, TheLadderAddsOneFormatAtATime) {
  std::vector<std::string> formats;
  for (const PresetRun& run :
       preset_runs("spark:ladder-experts,ladder-qkv-o,ladder-lm-head,ladder-fp8-kv", false)) {
    const Settings settings = settings_of(run, {});
    formats.push_back(settings.mxfp4_layers.value_or("none") + " " + settings.kv_dtype.value());
    EXPECT_THAT(run.num_clients, ElementsAre(1, 8, 64));
  }
  EXPECT_THAT(formats, ElementsAre("none bf16", "qkv,o bf16", "all bf16", "all fp8"));
}

TEST(Preset, FormatsOfTheUserAreRefused) {
  const PresetRun run = preset_runs("spark", false).front();
  Settings settings;
  settings.fp8_layers = "all";
  EXPECT_THAT(error_of([&] { settings_of(run, settings); }), HasSubstr("--fp8-layers"));
  settings = {};
  for (const char* format : {"fp8", "bf16"}) {
    settings.kv_dtype = format;
    EXPECT_THAT(error_of([&] { settings_of(run, settings); }), HasSubstr("--kv-dtype")) << format;
  }
}

// In this test each step takes one second.
TEST(Preset, AGridTakesItsStepsOncePerRepetition) {
  PresetRun run;
  run.prompt_lengths = {100, 250};
  run.output_lengths = {7};
  run.depths = {0, 1000};
  const int num_steps = 2 * (1 + 3 + 7);  // prompts take 1 and 3 steps of 100 rows
  EXPECT_EQ(expected_seconds(run, 4, 100, [](const PredictedStep&) { return 1.0; }), 4 * num_steps);
}

TEST(Preset, ALoadTakesItsPromptsAndThenItsAnswersTogether) {
  PresetRun run;
  run.prompt_lengths = {100};
  run.output_lengths = {7};
  run.num_clients = {1, 8};
  std::vector<int> rows;
  const double seconds = expected_seconds(run, 2, 400, [&](const PredictedStep& step) {
    rows.push_back(step.num_rows());
    return 1.0;
  });
  EXPECT_THAT(rows, ElementsAre(100, 1, 400, 400, 8));
  EXPECT_EQ(seconds, 2 * kRequestsOfClient * (1 + 7 + 2 + 7));
}

TEST(Preset, ThePlanAddsUpWhatIsKnown) {
  const std::vector<PresetRun> runs = preset_runs("spark:prompt,grid-bf16", false);
  const std::optional<double> known[]{30.0, 570.0}, unknown[]{30.0, std::nullopt};
  EXPECT_THAT(plan_text(runs, known),
              AllOf(HasSubstr("30 s |"), HasSubstr("10 min in all"), HasSubstr("loaded 2 times")));
  EXPECT_THAT(plan_text(runs, unknown), AllOf(HasSubstr("unknown"), HasSubstr("not known")));
}

}  // namespace
}  // namespace nibble::cli
