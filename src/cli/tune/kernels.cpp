#include "cli/tune/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "cli/measure/kernels_json.h"
#include "core/console/progress.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

// Returns the enumerator's name: "kExpertsUp" for "experts up", "kBf16" for "BF16".
std::string enumerator(std::string_view name) {
  std::string text = "k";
  bool begins_word = true;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (c != ' ' && c != '_')
      text += static_cast<char>(begins_word ? std::toupper(letter) : std::tolower(letter));
    begins_word = c == ' ' || c == '_';
  }
  return text;
}

std::string bound_text(int num_rows) { return num_rows == kAnyRows ? "kAnyRows" : fmt::to_string(num_rows); }

Json trial_json(const KernelTrial& trial) {
  return {{"operation", name(trial.operation)},
          {"kernel", trial.kernel},
          {"num_rows", trial.num_rows},
          {"us", trial.fault.empty() ? Json(trial.microseconds) : Json()},
          {"fault", trial.fault.empty() ? Json() : Json(trial.fault)}};
}

std::string operation_text(Operation operation, const std::vector<KernelTrial>& trials) {
  std::vector<std::string> kernels;
  std::set<int> rows;
  std::map<std::pair<int, std::string>, const KernelTrial*> cells;
  for (const KernelTrial& trial : trials) {
    if (trial.operation != operation) continue;
    if (std::ranges::find(kernels, trial.kernel) == kernels.end()) kernels.push_back(trial.kernel);
    rows.insert(trial.num_rows);
    cells[{trial.num_rows, trial.kernel}] = &trial;
  }
  if (kernels.empty()) return {};
  std::string text = fmt::format("{}\n", name(operation)), head = "| rows |", rule = "| ---: |";
  for (size_t k = 0; k < kernels.size(); ++k) {
    text += fmt::format("  {}  {}\n", static_cast<char>('a' + k), kernels[k]);
    head += fmt::format(" {:>9} |", static_cast<char>('a' + k));
    rule += " --------: |";
  }
  text += fmt::format("\n{}\n{}\n", head, rule);
  for (const int num_rows : rows) {
    const KernelTrial* least = nullptr;
    for (const std::string& kernel : kernels)
      if (const auto cell = cells.find({num_rows, kernel});
          cell != cells.end() && cell->second->fault.empty() &&
          (!least || cell->second->microseconds < least->microseconds))
        least = cell->second;
    text += fmt::format("| {:4} |", num_rows);
    for (const std::string& kernel : kernels) {
      const auto cell = cells.find({num_rows, kernel});
      if (cell == cells.end())
        text += fmt::format(" {:>9} |", "-");
      else if (!cell->second->fault.empty())
        text += fmt::format(" {:>9} |", "wrong");
      else
        text += fmt::format(" {:8.1f}{} |", cell->second->microseconds, cell->second == least ? '*' : ' ');
    }
    text += '\n';
  }
  return text + '\n';
}

}  // namespace

std::string trials_text(const KernelTrials& trials) {
  std::string text =
      "Microseconds per layer (unembed: per step); * marks the fastest for each number of rows.\n\n";
  for (const Operation operation : kOperations) text += operation_text(operation, trials.trials);
  for (const KernelTrial& trial : trials.trials)
    if (!trial.fault.empty())
      text += fmt::format("- not usable with {} rows: {}: {}\n", trial.num_rows, trial.kernel, trial.fault);
  return text;
}

std::string table_rows_text(const KernelTrials& trials, const std::string& record_name) {
  std::string text =
      "Rows of kernel_table.cpp by these times (only the affected columns); \"now\" is the current "
      "table:\n\n";
  for (const KernelChoice& row : trials.fastest) {
    std::string now;
    const auto is_same_kernel = [&](const KernelChoice& other) {
      return other.operation == row.operation && other.kernel == row.kernel;
    };
    const auto chosen = std::ranges::find_if(trials.chosen, is_same_kernel);
    if (std::ranges::find(trials.chosen, row) == trials.chosen.end())
      now = chosen == trials.chosen.end()
                ? "  // now: absent"
                : fmt::format("  // now: {}, {}", chosen->from_rows, bound_text(chosen->to_rows));
    text += fmt::format("    {{{}, {}, {}, {}, {}, \"{}\", \"{}\"}},{}\n", enumerator(name(row.operation)),
                        enumerator(row.weights), enumerator(row.activations), row.from_rows,
                        bound_text(row.to_rows), row.kernel, now.empty() ? row.reason : record_name, now);
  }
  return text;
}

std::string tuned_steps_text(std::span<const TunedSteps> steps) {
  if (steps.empty()) return "The table's kernels are the fastest for each number of rows.\n";
  std::string text = "Faster than the table's kernels:\n\n";
  for (const auto& [from, to, attention, experts] : steps)
    text += fmt::format(
        "- steps of {} to {} rows: attention and lm_head as with {} rows, experts as with {} rows\n", from,
        to, attention, experts);
  return text;
}

TunedKernels tune_kernels(const TuneKernelsOptions& options, const Model& model,
                          const ResolvedSettings& setup, const std::string& command_line) {
  const std::string began = utc_now();
  const BackendRow& row = *setup.backend;
  const KernelTrials trials = row.device->try_kernels(
      model.config, setup.options, setup.own,
      {options.num_rows, options.num_repetitions, show_progress("timing kernels", "numbers of rows")});
  Json record = to_json(RunRecord{.date = began,
                                  .command_line = command_line,
                                  .machine = describe_machine(device_facts(row)),
                                  .kernels = trials.chosen});
  record["model"] = model.source.name;
  record["num_repetitions"] = options.num_repetitions;
  for (const KernelTrial& trial : trials.trials) record["trials"].push_back(trial_json(trial));
  record["fastest"] = kernels_json(trials.fastest);
  const std::string text = trials_text(trials) + '\n' + table_rows_text(trials, options.record_name) + '\n' +
                           tuned_steps_text(trials.tuned);
  return {{text, record_line(record)}, Tuning{.gpu_steps = trials.tuned}};
}

}  // namespace nibble::cli
