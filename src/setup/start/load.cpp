#include "setup/start/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/changed_files.h"
#include "core/program/log.h"
#include "model/check_vectors.h"
#include "model/checkpoint/synthetic.h"
#include "model/shares/share_weights.h"
#include "model/weights.h"
#include "nodes/head_backend.h"
#include "setup/backend/kernel_log.h"
#include "setup/plan/experts.h"
#include "setup/plan/memory.h"
#include "setup/plan/nodes.h"

namespace nibble {
namespace {

// Shows the progress, and passes it to `watch` if that is set.
ReportProgress report_to(const ResolvedSettings& setup, const ReportProgress& watch, std::string task,
                         ProgressUnit unit = {}) {
  ReportProgress show = setup.show_progress(std::move(task), unit);
  if (!watch) return show;
  return [show = std::move(show), watch](size_t done, size_t total) {
    show(done, total);
    watch(done, total);
  };
}

// Returns a function that calls start() at its first report, so that the display, and the time that it shows,
// begin only then.
ReportProgress at_first_report(std::function<ReportProgress()> start) {
  return [start = std::move(start), show = std::make_shared<ReportProgress>()](size_t done, size_t total) {
    if (!*show) *show = start();
    (*show)(done, total);
  };
}

// Shows loading for a CPU as one task, in bytes of the weights. If the backend packs them, reading (or
// generating) and packing count for half each.
class HostLoading {
 public:
  HostLoading(ReportProgress show, bool packs) : show_(std::move(show)), packs_(packs) {}

  ReportProgress reading() {
    return [this](size_t done, size_t total) {
      total_ = total;
      report(packs_ ? done / 2 : done);
    };
  }
  ReportProgress packing() {
    return [this](size_t done, size_t total) {
      const double share = static_cast<double>(done) / static_cast<double>(std::max<size_t>(total, 1));
      report(total_ / 2 + static_cast<size_t>(share * static_cast<double>(total_ / 2)));
    };
  }
  void end() { show_(total_, total_); }

 private:
  void report(size_t done) {  // leaves the last report, done == total_, to end()
    if (done < total_) show_(done, total_);
  }

  ReportProgress show_;
  bool packs_;
  size_t total_{0};
};

using Bytes = std::span<const std::byte>;

constexpr size_t kPage{4096};
constexpr size_t kStep{64 << 20};  // bytes between two progress reports

Bytes bytes_of(const void* data, size_t count) { return {static_cast<const std::byte*>(data), count}; }

// Adds a matrix to `parts`, unless it is in a block format: repacking reads such matrices completely anyway.
void append(std::vector<Bytes>& parts, const Matrix& matrix, size_t num_matrices) {
  if (matrix.blocks() || matrix.foreign()) return;
  const Elements& stored = matrix.elements();
  const size_t elements = num_matrices * static_cast<size_t>(matrix.rows) * static_cast<size_t>(matrix.cols);
  const size_t scales = stored.scales ? elements / 32 : 0;
  parts.push_back(bytes_of(stored.data, num_bytes(stored.format, elements) - scales));
  if (stored.scales) parts.push_back(bytes_of(stored.scales, scales));
}

// Returns the bytes of all matrices. Vectors (norms, biases) are left out: they lie between the matrices, and
// have a thousandth of their bytes.
std::vector<Bytes> matrices(const Weights& weights) {
  std::vector<Bytes> parts;
  const size_t experts = static_cast<size_t>(weights.config.experts().count);
  append(parts, weights.embedding, 1);
  for (const LayerWeights& layer : weights.layers) {
    for (const Matrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router})
      append(parts, *matrix, 1);
    append(parts, layer.gate_up.first, experts);
    append(parts, layer.down.first, experts);
  }
  append(parts, weights.unembedding, 1);
  return parts;
}

// Reads mapped weights once in file order, at full disk speed; otherwise page faults slow the first answer.
void read_weights(const Weights& weights, const ReportProgress& report) {
  std::vector<Bytes> parts = matrices(weights);
  size_t total = 0, done = 0;
  for (const Bytes part : parts) total += part.size();
  // Read in the order of the file, for read-ahead: matrices in a file are not ordered by layer.
  std::ranges::sort(parts, [](Bytes a, Bytes b) { return a.data() < b.data(); });
  for (const Bytes part : parts) {
    for (size_t at = 0; at < part.size(); at += kPage) {
      [[maybe_unused]] const volatile std::byte touched = part[at];
      if (at % kStep == 0) report(done + at, total);
    }
    done += part.size();
  }
  report(total, total);
}

// Returns the weights in the form that the backend takes. With `links`: only this rank's share. Reports
// converting and copying to `watch`, and reading or generating to `loading`.
std::shared_ptr<const Weights> prepare_weights(const Model& model, const ResolvedSettings& setup,
                                               const RankLinks* links, const ReportProgress& watch,
                                               const ReportProgress& loading) {
  std::shared_ptr<const Weights> weights = model.weights;
  if (weights) check_vectors(*weights);
  if (weights)
    weights = converted(
        std::move(weights), setup, model.source.name,
        [&](std::string task, ProgressUnit unit) { return report_to(setup, watch, std::move(task), unit); });
  if (setup.backend->device)
    return weights ? weights
                   : std::make_shared<const Weights>(describe_synthetic(model.config, model.source.name));
  const bool is_made = !weights;
  if (is_made)
    weights = synthetic_with_experts(make_synthetic(model.config, model.source.name, 0, loading), setup);
  if (links)
    weights = share_of(
        *weights, links->share(),
        report_to(setup, watch, fmt::format("copying the share of node {}", links->share().rank), "layers"));
  if (is_made) return weights;
  read_weights(*weights, loading);
  return weights;
}

void log_tuning(const Model& model, const ResolvedSettings& setup) {
  if (const Tuning* tuning = tuning_of(setup, model.config))
    log::info("settings found by nibble tune: {}", to_json(*tuning).dump());
  else if (!setup.tunings.empty())
    log::info("nibble tune has not measured this model on this machine: {}",
              tuned_model(setup, model.config));
}

std::unique_ptr<Backend> load_here(const Model& model, const ResolvedSettings& setup, BackendOptions options,
                                   const ReportProgress& watch) {
  const bool is_on_device = setup.backend->device.has_value();
  const std::string_view task = model.weights ? (is_on_device ? "uploading" : "loading") : "generating";
  const ReportProgress show =
      at_first_report([&] { return report_to(setup, watch, fmt::format("{} {}", task, model.source.name)); });
  HostLoading on_host(show, !is_on_device && memory_plan(model, setup, options).weight_bytes > 0);
  options.report_upload = is_on_device ? show : on_host.packing();
  if (!is_on_device) check_memory(model, setup, options);
  log_tuning(model, setup);
  std::unique_ptr<Backend> backend =
      setup.backend->making.make(prepare_weights(model, setup, options.links.get(), watch, on_host.reading()),
                                 options, own_options(setup, model.config));
  if (!is_on_device) on_host.end();
  if (model.weights) check_unchanged(model.weights->files);
  check_unchanged(model.adapter_files);
  check_requirements(setup.requirements, setup.backend->name, backend->kernels());
  log_kernels(*backend, model.source.name);
  return backend;
}

// Makes the backend of one rank. On failure, sends the error to the other nodes, then rethrows it.
std::unique_ptr<Backend> load_rank(const Model& model, const ResolvedSettings& setup, BackendOptions options,
                                   std::shared_ptr<nodes::NodeLinks> links, const ReportProgress& watch) {
  try {
    options.links = links;
    return load_here(model, setup, options, watch);
  } catch (const std::exception& error) {
    links->give_up(error.what());
    throw;
  }
}

}  // namespace

std::unique_ptr<Backend> load(const Model& model, const ResolvedSettings& setup,
                              const BackendOptions& options, const ReportProgress& watch) {
  if (!setup.nodes) return load_here(model, setup, options, watch);
  nodes::NodeOptions node = node_options(model, setup);
  node.group = setup.backend->nodes->new_group(setup.own);
  const auto links =
      nodes::NodeLinks::lead(node, {options.num_pages, options.max_table_pages, options.max_batch_tokens});
  return nodes::lead_backend(load_rank(model, setup, options, links, watch), links, model.config);
}

void follow(const Model& model, const ResolvedSettings& setup) {
  const auto links = nodes::NodeLinks::join(node_options(model, setup));
  BackendOptions options = setup.options;
  options.num_threads = num_threads_of(setup, model.config);
  options.num_pages = links->room().num_pages;
  options.max_table_pages = links->room().max_table_pages;
  options.max_batch_tokens = links->room().max_batch_tokens;
  const std::unique_ptr<Backend> backend = load_rank(model, setup, options, links, {});
  nodes::follow(*backend, *links, model.config);
}

}  // namespace nibble
