// Settings in the program's types, made by resolve() (setup/start/resolve.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "core/console/progress.h"
#include "model/shares/share.h"
#include "nodes/node_links.h"
#include "setup/backend/backends.h"
#include "setup/backend/requirements.h"
#include "setup/machine/tuning.h"
#include "setup/model/model.h"
#include "setup/model/places.h"
#include "speculative/speculator.h"

namespace nibble {

// Role in a group of nodes: --nodes, --node-rank, --head, --secret-file, --expert-parallel.
struct NodeSetup {
  int rank;
  std::vector<int> parts;  // relative size of each node's share of the model
  ExpertSplit split;       // --expert-parallel
  nodes::tcp::endpoint head;
  nodes::Secret secret;
  // Set by the command: this program's version, and nodes::NodeOptions::on_lost.
  std::string program{};
  std::function<void(const std::string&)> on_lost{};
};

struct DraftModelSetup {  // a draft model, and the options of its backend (setup/start/drafters.h)
  Model model;
  BackendOptions options;
};

struct AdapterSetup {  // one --lora FILE[:SCALE]
  std::string file;
  float scale{1};
};

struct ResolvedSettings {
  const BackendRow* backend{nullptr};
  // Backend options without page counts, which depend on the model (setup/plan/capacity.h).
  BackendOptions options{};
  OwnOptions own{};
  std::optional<Format> experts{};       // --experts, --mxfp4-layers moe; nullopt: as in the file
  std::vector<AdapterSetup> adapters{};  // --lora
  std::optional<int> threads{};          // --threads; nullopt: as found by nibble tune, else all cores
  Tunings tunings{};                     // found by nibble tune for this machine
  std::vector<Requirement> requirements{};
  std::optional<int> context{};  // --context
  int max_sequences{0};
  double itl_target{0};                           // --itl-target, in seconds; 0: no target
  int max_shared_rows{0};                         // default of the device
  int max_rows_with_answers{0};                   // default of the device; unused with --itl-target
  std::optional<double> device_memory_share{};    // --gpu-memory-utilization
  bool shares_prefixes{false};                    // --prefix-cache
  speculative::SpeculationOptions speculation{};  // --speculate, --speculative-config
  // Set by open_drafters() (setup/start/drafters.h); null: no draft model.
  std::shared_ptr<const DraftModelSetup> draft_model{};
  size_t draft_model_bytes{0};         // memory that the draft model takes
  std::shared_ptr<NodeSetup> nodes{};  // null: this machine runs the model alone
  Places places{};
  // Called at the start of each long task of loading. Returns the function that shows the task's progress.
  std::function<ReportProgress(std::string task, ProgressUnit unit)> show_progress{
      [](std::string task, ProgressUnit unit) { return nibble::show_progress(std::move(task), unit); }};
};

void set_threads(ResolvedSettings& setup, int num_threads);  // same effect as --threads

// Returns the widths and formats of a model as text: the key of its settings in the file of nibble tune.
std::string tuned_model(const ResolvedSettings& setup, const Config& config);
// Returns the settings that nibble tune found for this model on this machine; null if it found none.
const Tuning* tuning_of(const ResolvedSettings& setup, const Config& config);
// Returns the number of threads that nibble tune found, or setup.options.num_threads if tune found none or if
// --threads was given.
int num_threads_of(const ResolvedSettings& setup, const Config& config);
OwnOptions own_options(const ResolvedSettings& setup, const Config& config);  // setup.own with tuned values

// Returns settings that do not quantise: experts and dense layers have the formats of the file (experts that
// --lora changes may become BF16), the KV cache is BF16. On a GPU, experts take bfloat16 activations in
// prompts too. On a CPU, they take float activations, but only if --experts-activations was given.
ResolvedSettings unquantised(ResolvedSettings setup);

// Whether the backend takes matrices in GGUF's block formats. Otherwise with_elements() converts them.
bool takes_blocks(const ResolvedSettings& setup);

}  // namespace nibble
