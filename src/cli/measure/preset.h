// The presets of bench: many measurements of one model in one command, also in other formats.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/prediction.h"
#include "cli/measure/speed_tests.h"
#include "core/settings.h"

namespace nibble::cli {

// One measurement of a preset, for which the model is loaded once.
struct PresetRun {
  std::string name, what;
  std::string mxfp4_layers{};  // as in --mxfp4-layers; empty: as in the checkpoint
  std::string kv_dtype{"bf16"};
  std::vector<int> prompt_lengths{}, output_lengths{}, depths{};  // of a grid, as in bench
  // Empty for a grid. Else numbers of clients, whose requests have the only prompt length and output length.
  std::vector<int> num_clients{};
  bool has_draft_head{false};  // needs a draft head, and is left out without one

  bool is_grid() const { return num_clients.empty(); }
  std::vector<BenchTest> tests() const;  // of a grid
};

inline constexpr int kPresetRepetitions{3};

// The runs of "spark", or those that are named after a colon: "spark:grid-bf16,ladder-qkv-o". Throws
// InputError for an unknown name, or for a run that is named and needs a draft head.
std::vector<PresetRun> preset_runs(std::string_view preset, bool has_draft_head);
std::string preset_names();  // "spark, spark-small"

// The settings of a run. Throws InputError if `settings` already have formats, which a preset sets itself.
Settings settings_of(const PresetRun& run, const Settings& settings);

// Returns the seconds of a step.
using PredictSeconds = std::function<double(const PredictedStep&)>;
// Expected seconds of a run with its warm-ups, without loading the model and without drafts.
double expected_seconds(const PresetRun& run, int num_repetitions, int max_batch_tokens,
                        const PredictSeconds& predict);

// A line for each run, and their sum. nullopt: the time is not known.
std::string plan_text(std::span<const PresetRun> runs, std::span<const std::optional<double>> seconds);

}  // namespace nibble::cli
