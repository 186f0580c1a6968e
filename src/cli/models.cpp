// nibble models: lists the models on this machine, and which of them run here.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "core/errors/error.h"
#include "core/text/bytes_text.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "setup/model/installed_models.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/capacity.h"
#include "setup/plan/memory.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kModelsFooter{R"(
Lists the bundled miniature, and what Hugging Face, Ollama and LM Studio have stored on this disk; given folders, the models
in them and in the folders below. MODEL of other commands may be each of these names. CONTEXT is the longest that fits into
the memory that is free now, for one conversation. Nothing is loaded or downloaded.

Examples:
  nibble models
  nibble models ~/models /srv/models
  nibble models --backend cpu --json)"};

struct ModelsOptions {
  std::vector<std::string> folders;
  bool as_json{false};
};

struct ModelRow {
  InstalledModel model;
  size_t file_bytes{0};
  std::string format{};   // "safetensors: MXFP4, BF16"; empty if the model cannot be opened
  int context{0};         // tokens of context that fit; 0: not even the shortest context fits
  std::string refusal{};  // reason why the model does not run here; empty if it does
};

// Names the storage of the experts, and that of the attention's matrices.
std::string format_of(const InstalledModel& installed, const Weights& weights) {
  const LayerWeights& layer = weights.layers.front();
  return fmt::format(
      "{}: {}, {}",
      installed.path.extension() == ".safetensors" || std::filesystem::is_directory(installed.path)
          ? "safetensors"
          : "GGUF",
      stored_name(layer.gate_up.first), stored_name(layer.q));
}

// Returns the longest context of one sequence that fits into the budgets, in whole pages; 0: none.
int fitting_context(const Model& model, const ResolvedSettings& setup, const std::vector<size_t>& budgets) {
  const auto fits = [&](int context) {
    return least_room(model, setup, backend_options(model.config, setup, {context, 1}), budgets) >= 0;
  };
  const int most = setup.context ? context_of(model.config, setup) : model.config.max_context;
  if (fits(most)) return most;
  int fitting = 0, too_many = most / kPageTokens;  // counts of pages
  while (too_many - fitting > 1) {
    const int middle = fitting + (too_many - fitting) / 2;
    (fits(middle * kPageTokens) ? fitting : too_many) = middle;
  }
  return fitting * kPageTokens;
}

std::string missing_memory(const Model& model, const ResolvedSettings& setup,
                           const std::vector<size_t>& budgets) {
  const size_t needed = needed_bytes(model, setup, backend_options(model.config, setup, {kPageTokens, 1}));
  return fmt::format("needs {} of memory, {} is available", bytes_text(needed),
                     bytes_text(*std::ranges::min_element(budgets)));
}

ModelRow examine(const InstalledModel& installed, const Places& places, const ResolvedSettings& setup,
                 const std::vector<size_t>& budgets) {
  ModelRow row{.model = installed};
  row.refusal = installed.fault;
  if (!row.refusal.empty()) return row;
  row.file_bytes = file_bytes(installed.path);
  try {
    const Model model = open_model(installed.path.string(), places);
    row.format = format_of(installed, *model.weights);
    require_tokenizer(model.source, places);
    row.context = fitting_context(model, setup, budgets);
    if (row.context == 0) row.refusal = missing_memory(model, setup, budgets);
  } catch (const InputError& error) {
    row.refusal = error.what();
  } catch (const std::filesystem::filesystem_error& error) {
    row.refusal = fmt::format("{}: {}", error.path1().string(), error.code().message());
  }
  return row;
}

Json to_json(const ModelRow& row, std::string_view backend) {
  Json json{{"name", row.model.name},
            {"place", row.model.place},
            {"path", row.model.path.string()},
            {"bytes", row.file_bytes},
            {"format", row.format},
            {"context", row.context},
            {"backend", backend},
            {"runs_here", row.refusal.empty()}};
  if (!row.refusal.empty()) json["why_not"] = row.refusal;
  return json;
}

void print_table(const std::vector<ModelRow>& rows, std::string_view backend) {
  size_t width = 4;
  for (const ModelRow& row : rows) width = std::max(width, row.model.name.size());
  fmt::print("{:<{}}  {:>8}  {:<24} {:>8}  RUNS HERE\n", "NAME", width, "SIZE", "FORMAT", "CONTEXT");
  for (const ModelRow& row : rows)
    fmt::print("{:<{}}  {:>8}  {:<24} {:>8}  {}\n", row.model.name, width,
               row.file_bytes > 0 ? bytes_text(row.file_bytes) : "", row.format.empty() ? "?" : row.format,
               row.context > 0 ? fmt::format("{}", row.context) : "-",
               row.refusal.empty() ? fmt::format("yes, {}", backend) : "no: " + row.refusal);
}

int list_models(const ModelsOptions& options, const Settings& settings) {
  const ResolvedSettings setup = resolve(settings);
  std::vector<InstalledModel> models;
  if (options.folders.empty()) models = installed_models(setup.places);
  for (const std::string& folder : options.folders) {
    const std::vector<InstalledModel> found = models_in(folder);
    models.insert(models.end(), found.begin(), found.end());
  }
  const std::vector<size_t> budgets = memory_budgets(setup);
  std::vector<ModelRow> rows;
  for (const InstalledModel& model : models) rows.push_back(examine(model, setup.places, setup, budgets));
  if (options.as_json) {
    Json list = Json::array();
    for (const ModelRow& row : rows) list.push_back(to_json(row, setup.backend->name));
    fmt::print("{}\n", json_text(list, JsonForm::kIndented));
  } else if (rows.empty()) {
    fmt::print("no models here; README.md says how to get one\n");
  } else {
    print_table(rows, setup.backend->name);
  }
  return kDone;
}

}  // namespace

Action define_models(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<ModelsOptions>();
  command.add_option("FOLDER", options->folders, "look only in these folders")->type_name("");
  command.add_flag("--json", options->as_json, "one JSON array, with paths");
  add_settings(command, settings,
               {SettingGroup::kMachine, SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kPlaces});
  command.footer(kModelsFooter);
  return [options, &settings] { return list_models(*options, settings); };
}

}  // namespace nibble::cli
