#include "cli/measure/preset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/errors/error.h"
#include "core/text/take_until.h"

namespace nibble::cli {
namespace {

struct Sizes {
  std::vector<int> prompt_lengths, output_lengths, depths;  // lists for the grid runs
  std::vector<int> num_clients;      // ladder run: numbers of clients that decode at the same time
  int prompt_length, output_length;  // ladder run: lengths of each request
  int head_prompt_length;            // prompt length of the runs `prompt` and `prompt-draft-head`
};

// Sizes of the grid in which vLLM, SGLang and llama.cpp were compared on a DGX Spark, and of a ladder: a run
// with growing numbers of clients.
Sizes sizes_of_spark() {
  return {.prompt_lengths = {512, 1024, 2048, 4096, 8192},
          .output_lengths = {16, 32, 64, 128, 256},
          .depths = {0, 4096, 8192, 16384, 32768},
          .num_clients = {1, 8, 64},
          .prompt_length = 128,
          .output_length = 64,
          .head_prompt_length = 2048};
}
// Returns sizes for the same runs with a small model on a CPU, for tests.
Sizes sizes_of_small_spark() {
  return {.prompt_lengths = {16, 32},
          .output_lengths = {4, 8},
          .depths = {0, 16},
          .num_clients = {1, 2},
          .prompt_length = 16,
          .output_length = 4,
          .head_prompt_length = 32};
}

std::vector<PresetRun> runs_of(const Sizes& sizes) {
  const auto grid = [&](const char* name, const char* what, const char* mxfp4_layers) {
    return PresetRun{.name = name,
                     .what = what,
                     .mxfp4_layers = mxfp4_layers,
                     .prompt_lengths = sizes.prompt_lengths,
                     .output_lengths = sizes.output_lengths,
                     .depths = sizes.depths};
  };
  const auto ladder = [&](const char* name, const char* what, const char* mxfp4_layers,
                          const char* kv_dtype = "bf16") {
    return PresetRun{.name = name,
                     .what = what,
                     .mxfp4_layers = mxfp4_layers,
                     .kv_dtype = kv_dtype,
                     .prompt_lengths = {sizes.prompt_length},
                     .output_lengths = {sizes.output_length},
                     .num_clients = sizes.num_clients};
  };
  std::vector<PresetRun> runs{
      grid("grid-bf16", "dense layers as in the checkpoint", ""),
      grid("grid-mxfp4", "all layers in MXFP4", "all"),
      ladder("ladder-experts", "experts in MXFP4", ""),
      ladder("ladder-qkv-o", "experts, qkv and o in MXFP4", "qkv,o"),
      ladder("ladder-lm-head", "all layers in MXFP4", "all"),
      ladder("ladder-fp8-kv", "all layers in MXFP4, KV cache in FP8", "all", "fp8"),
      ladder("prompt", "prompts of one client, without drafts", ""),
      ladder("prompt-draft-head", "prompts of one client, with drafts", ""),
  };
  for (PresetRun& run : runs) {
    if (!run.name.starts_with("prompt")) continue;
    run.prompt_lengths = {sizes.head_prompt_length};
    run.num_clients = {1};
    run.has_draft_head = run.name == "prompt-draft-head";
  }
  return runs;
}

struct PresetRow {
  std::string_view name;
  Sizes (*sizes)();
};
constexpr PresetRow kPresets[]{{"spark", &sizes_of_spark}, {"spark-small", &sizes_of_small_spark}};

std::string run_time_text(double seconds) {
  return seconds < 100 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

// Returns the seconds of one wave: the prompts of all clients, then their answers together.
double wave_seconds(const PresetRun& run, int num_clients, int max_batch_tokens,
                    const PredictSeconds& predict) {
  const int prompt = run.prompt_lengths.front(), output = run.output_lengths.front();
  const int prompts_of_step = std::max(1, max_batch_tokens / prompt);
  double seconds = 0;
  for (int left = num_clients; left > 0; left -= prompts_of_step)
    seconds +=
        predict({.num_tokens = prompt, .context = prompt, .num_sequences = std::min(left, prompts_of_step)});
  return seconds + output * predict({.context = prompt + output / 2, .num_sequences = num_clients});
}

}  // namespace

std::vector<BenchTest> PresetRun::tests() const { return list_tests(prompt_lengths, output_lengths, depths); }

std::string preset_names() {
  std::vector<std::string_view> names;
  for (const PresetRow& row : kPresets) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<PresetRun> preset_runs(std::string_view preset, bool has_draft_head) {
  std::string_view chosen = preset;
  const std::string_view name = take_until(chosen, ':');
  const auto* const row = std::ranges::find(kPresets, name, &PresetRow::name);
  if (row == std::end(kPresets)) throw InputError("--preset '{}': expected one of {}", name, preset_names());
  std::vector<PresetRun> all = runs_of(row->sizes()), runs;
  if (chosen.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(runs),
                 [&](const PresetRun& run) { return has_draft_head || !run.has_draft_head; });
    return runs;
  }
  while (!chosen.empty()) {
    const std::string_view wanted = take_until(chosen, ',');
    const auto run = std::ranges::find(all, wanted, &PresetRun::name);
    std::vector<std::string_view> names;
    for (const PresetRun& known : all) names.push_back(known.name);
    if (run == all.end())
      throw InputError("--preset {}: '{}': expected runs among {}", preset, wanted, fmt::join(names, ", "));
    if (run->has_draft_head && !has_draft_head)
      throw InputError("--preset {}: {} needs --draft-head FOLDER", preset, wanted);
    runs.push_back(*run);
  }
  return runs;
}

Settings settings_of(const PresetRun& run, const Settings& settings) {
  for (const auto& [flag, is_given] : {std::pair{"--mxfp4-layers", settings.mxfp4_layers.has_value()},
                                       std::pair{"--fp8-layers", settings.fp8_layers.has_value()},
                                       std::pair{"--kv-dtype", settings.kv_dtype.has_value()}})
    if (is_given) throw InputError("{} does not work with --preset, which sets the formats", flag);
  Settings of_run = settings;
  if (!run.mxfp4_layers.empty()) of_run.mxfp4_layers = run.mxfp4_layers;
  of_run.kv_dtype = run.kv_dtype;
  return of_run;
}

double expected_seconds(const PresetRun& run, int num_repetitions, int max_batch_tokens,
                        const PredictSeconds& predict) {
  double seconds = 0;
  if (!run.is_grid()) {
    for (const int num_clients : run.num_clients)
      seconds += kRequestsOfClient * wave_seconds(run, num_clients, max_batch_tokens, predict);
  } else {
    for (const BenchTest& test : run.tests()) {
      const bool is_decode = test.kind == BenchKind::kDecode;
      if (is_decode)  // each step is assumed to take as long as the middle step
        seconds += test.num_tokens * predict({.context = test.depth + test.num_tokens / 2 + 1});
      else
        for (const TestStep& step : steps_of(test, max_batch_tokens))
          seconds += predict({step.num_tokens, test.depth + step.offset + step.num_tokens, step.wants_next});
    }
  }
  return num_repetitions * seconds;
}

std::string plan_text(std::span<const PresetRun> runs, std::span<const std::optional<double>> seconds) {
  std::string text = fmt::format("| {:<17} | {:<37} | {:>8} |\n| {:-<17} | {:-<37} | {:->8} |\n", "run",
                                 "measures", "expected", "", "", ":");
  double sum = 0;
  for (size_t n = 0; n < runs.size(); ++n) {
    sum += seconds[n].value_or(0);
    text += fmt::format("| {:<17} | {:<37} | {:>8} |\n", runs[n].name, runs[n].what,
                        seconds[n] ? run_time_text(*seconds[n]) : "unknown");
  }
  const bool are_known = std::ranges::all_of(seconds, [](const auto& s) { return s.has_value(); });
  return text + (are_known
                     ? fmt::format("\n{} in all, and the model is loaded {} time{}.\n", run_time_text(sum),
                                   runs.size(), runs.size() == 1 ? "" : "s")
                     : fmt::format("\nThe speed of this machine is not known before the runs; the model "
                                   "is loaded {} time{}.\n",
                                   runs.size(), runs.size() == 1 ? "" : "s"));
}

}  // namespace nibble::cli
