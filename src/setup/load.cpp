#include "setup/load.h"

#include "core/log.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "model/synthetic.h"
#include "setup/memory.h"
#include "setup/read_weights.h"

namespace nibble {
namespace {

// Weights in memory; for a device descriptions, from which it makes and uploads them itself.
std::shared_ptr<const Weights> prepare_weights(const Model& model, const ResolvedSettings& setup) {
  if (model.weights && model.weights->make) {
    ThreadPool pool(setup.threads.value_or(0));
    model.weights->make(pool, show_progress("converting " + model.source.name),
                        takes_blocks(setup) ? MakeWhat::kAllButBlocks : MakeWhat::kAll);
  }
  if (setup.backend->is_device)
    return model.weights
               ? model.weights
               : std::make_shared<const Weights>(describe_synthetic(model.config, model.source.name));
  if (!model.weights) {
    const ReportProgress report = show_progress("making " + model.source.name);
    return std::make_shared<const Weights>(make_synthetic(model.config, model.source.name, 0, report));
  }
  read_weights(*model.weights, show_progress("loading " + model.source.name));
  return model.weights;
}

void log_tuning(const ResolvedSettings& setup, const BackendOptions& options) {
  const bool has_tuned_threads = options.num_threads > 0 && !setup.threads;
  if (setup.backend->retune && (options.tuning != CpuTuning{} || has_tuned_threads))
    log::info("as nibble tune found: {}", to_json(Tuning{options.num_threads, options.tuning}).dump());
}

}  // namespace

std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options) {
  if (!setup.backend->is_device) check_memory(model, setup, options);
  log_tuning(setup, options);
  std::unique_ptr<Backend> backend = setup.backend->make(prepare_weights(model, setup), options);
  check_requirements(setup.requirements, setup.backend->name, backend->kernels());
  return backend;
}

}  // namespace nibble
