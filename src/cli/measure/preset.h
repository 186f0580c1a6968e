// Presets of bench: several measurements of one model, in several formats, with one command.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/prediction.h"
#include "cli/measure/speed_tests.h"
#include "core/program/settings.h"

namespace nibble::cli {

// One measurement of a preset. The model is loaded once for it.
struct PresetRun {
  std::string name, what;
  std::string mxfp4_layers{};  // --mxfp4-layers; empty: formats of the checkpoint
  std::string kv_dtype{"bf16"};
  std::vector<int> prompt_lengths{}, output_lengths{}, depths{};  // lists of a grid, as the flags of bench
  // Numbers of clients; empty for a grid. With clients, prompt_lengths and output_lengths have one element
  // each.
  std::vector<int> num_clients{};
  bool has_draft_head{false};  // whether the run needs a draft head; without one, the run is left out

  bool is_grid() const { return num_clients.empty(); }
  std::vector<BenchTest> tests() const;  // tests of a grid run
};

inline constexpr int kPresetRepetitions{3};

// Returns the runs of a preset ("spark"), or the runs named after a colon ("spark:grid-bf16,ladder-qkv-o").
// Throws InputError for an unknown name, or if a named run needs a draft head and `has_draft_head` is false.
std::vector<PresetRun> preset_runs(std::string_view preset, bool has_draft_head);
std::string preset_names();  // "spark, spark-small"

// Returns `settings` with the formats of the run. Throws InputError if `settings` already set a format.
Settings settings_of(const PresetRun& run, const Settings& settings);

using PredictSeconds = std::function<double(const PredictedStep&)>;
// Returns the expected seconds of a run, without loading the model and without drafts. `num_repetitions`
// includes warm-ups.
double expected_seconds(const PresetRun& run, int num_repetitions, int max_batch_tokens,
                        const PredictSeconds& predict);

// Returns a table with one line per run, and the total time. `seconds`: one per run; nullopt if unknown.
std::string plan_text(std::span<const PresetRun> runs, std::span<const std::optional<double>> seconds);

}  // namespace nibble::cli
