#include "setup/load.h"

#include "core/log.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "model/convert_blocks.h"
#include "model/synthetic.h"
#include "setup/memory.h"
#include "setup/read_weights.h"

namespace nibble {
namespace {

// Weights in the forms that the backend takes: elements, blocks, or, for a device, recipes.
std::shared_ptr<const Weights> prepare_weights(const Model& model, const ResolvedSettings& setup) {
  std::shared_ptr<const Weights> weights = model.weights;
  if (weights && has_blocks(*weights)) {
    ThreadPool pool(setup.threads.value_or(0));
    weights = with_elements(std::move(weights), takes_blocks(setup), pool,
                            show_progress("converting " + model.source.name));
  }
  if (setup.backend->is_device)
    return weights ? weights
                   : std::make_shared<const Weights>(describe_synthetic(model.config, model.source.name));
  if (!weights) {
    const ReportProgress report = show_progress("making " + model.source.name);
    return std::make_shared<const Weights>(make_synthetic(model.config, model.source.name, 0, report));
  }
  read_weights(*weights, show_progress("loading " + model.source.name));
  return weights;
}

void log_tuning(const ResolvedSettings& setup, const BackendOptions& options) {
  const bool has_tuned_threads = options.num_threads > 0 && !setup.threads;
  const cpu::CpuTuning& tuning = setup.own.cpu.tuning;
  if (setup.backend->retune && (tuning != cpu::CpuTuning{} || has_tuned_threads))
    log::info("as nibble tune found: {}", to_json(Tuning{options.num_threads, tuning}).dump());
}

}  // namespace

std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options) {
  if (!setup.backend->is_device) check_memory(model, setup, options);
  log_tuning(setup, options);
  std::unique_ptr<Backend> backend = setup.backend->make(prepare_weights(model, setup), options, setup.own);
  check_requirements(setup.requirements, setup.backend->name, backend->kernels());
  return backend;
}

}  // namespace nibble
