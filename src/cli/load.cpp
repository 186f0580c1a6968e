#include "cli/load.h"

#include <algorithm>
#include <fstream>

#include "cli/bytes.h"
#include "cli/read_weights.h"
#include "cli/require.h"
#include "core/error.h"
#include "core/progress.h"
#include "kv/page_table.h"
#include "model/synthetic.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

// A rank file of the 256 bytes: base64 of the byte, a space, its rank.
std::string byte_ranks() {
  constexpr std::string_view kBase64{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
  std::string ranks;
  for (unsigned byte = 0; byte < 256; ++byte)
    ranks += fmt::format("{}{}== {}\n", kBase64[byte >> 2], kBase64[(byte & 3) << 4], byte);
  return ranks;
}

Tokenizer byte_tokenizer() { return Tokenizer::from_tiktoken(byte_ranks(), "the vocabulary of bytes"); }

void check_memory(const Model& model, const BackendRow& backend, const BackendOptions& options) {
  const MemoryPlan plan = backend.plan(model.config, options);
  const size_t weights = weight_bytes(model.config) + plan.weight_bytes;
  const size_t needed = weights + plan.kv_bytes + plan.workspace_bytes;
  const size_t available = available_bytes();
  if (needed <= available) return;
  throw InputError(
      "{} needs {} of memory (weights {}, KV cache {}, workspace {}) and {} are available: {}; 'nibble "
      "inspect' shows the plan",
      model.source.name, bytes_text(needed), bytes_text(weights), bytes_text(plan.kv_bytes),
      bytes_text(plan.workspace_bytes), bytes_text(available),
      weights > available ? "the weights alone do not fit"
                          : "a smaller --context, --max-batch-tokens or --max-sequences takes less");
}

// Of --mxfp4-layers. Experts are MXFP4 in every checkpoint, so that "moe" changes nothing.
DenseFormats dense_formats(std::string_view list) {
  DenseFormats dense;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    const bool all = name == "all";
    if (!all && name != "moe" && name != "qkv" && name != "o" && name != "lm_head")
      throw InputError(
          "--mxfp4-layers '{}': accepted are moe, qkv, o, lm_head, with commas between them, or all", name);
    if (all || name == "qkv") dense.qkv = Format::kMxfp4;
    if (all || name == "o") dense.attention_output = Format::kMxfp4;
    if (all || name == "lm_head") dense.unembedding = Format::kMxfp4;
    list.remove_prefix(std::min(list.size(), name.size() + 1));
  }
  return dense;
}

// What the backend takes: weights in memory, or, on a device, descriptions of what it makes itself.
std::shared_ptr<const Weights> bring_weights(const Model& model, const BackendRow& row) {
  if (row.is_device)
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

}  // namespace

Model open_model(const std::string& argument, const Settings& settings) {
  Model model{find_model(argument, settings), {}, nullptr};
  if (model.source.synthetic) {
    model.config = *model.source.synthetic;
  } else {
    model.weights = std::make_shared<const Weights>(open_weights(model.source.path));
    model.config = model.weights->config;
  }
  return model;
}

StorageFormats formats_of(const Model& model, const Settings& settings) {
  const DenseFormats dense = dense_formats(settings.mxfp4_layers.value_or(""));
  StorageFormats formats = model.weights ? nibble::formats_of(*model.weights) : StorageFormats{};
  if (dense.qkv == Format::kMxfp4) formats.qkv = Format::kMxfp4;
  if (dense.attention_output == Format::kMxfp4) formats.attention_output = Format::kMxfp4;
  if (dense.unembedding == Format::kMxfp4) formats.unembedding = Format::kMxfp4;
  return formats;
}

Tokenizer open_tokenizer(const ModelSource& source, const Settings& settings) {
  if (settings.tokenizer)
    return *settings.tokenizer == "bytes" ? byte_tokenizer() : Tokenizer::open(*settings.tokenizer);
  if (source.synthetic) return byte_tokenizer();
  if (fs::is_regular_file(source.path) && source.path.extension() != ".safetensors")
    return Tokenizer::open(source.path);  // a vocabulary was meant
  // OpenAI's original/ folder lies in the one that holds the vocabulary.
  for (const fs::path& folder : {source.folder(), source.folder() / ".."})
    if (fs::is_regular_file(folder / "tokenizer.json")) return Tokenizer::open(folder);
  throw InputError("{}: no tokenizer.json in {}; --tokenizer names another, '--tokenizer bytes' does without",
                   source.name, source.folder().string());
}

int context_of(const Config& config, const Settings& settings) {
  if (!settings.context) return std::min(kDefaultContext, config.max_context);
  if (*settings.context > config.max_context)
    throw InputError("--context {}: the model was made for at most {}", *settings.context,
                     config.max_context);
  return *settings.context;
}

BackendOptions backend_options(const Config& config, const Settings& settings, const Capacity& capacity) {
  BackendOptions options;
  const int pages = (capacity.context + kPageTokens - 1) / kPageTokens;
  options.num_full_pages = capacity.num_sequences * pages;
  options.num_sliding_pages =
      capacity.num_sequences * std::min(pages, max_sliding_pages(config.window, settings.max_batch_tokens));
  options.max_batch_tokens = settings.max_batch_tokens;
  options.num_threads = settings.threads.value_or(0);
  options.isa = settings.isa.value_or("");
  options.dense = dense_formats(settings.mxfp4_layers.value_or(""));
  if (options.dense != DenseFormats{} && !find_backend(settings.backend).is_device)
    throw InputError(
        "--mxfp4-layers: the backend {} runs dense layers as the checkpoint has them; cuda quantises them",
        find_backend(settings.backend).name);
  return options;
}

EngineOptions engine_options(const BackendOptions& options, const Capacity& capacity) {
  EngineOptions engine;
  engine.num_full_pages = options.num_full_pages;
  engine.num_sliding_pages = options.num_sliding_pages;
  engine.max_batch_tokens = options.max_batch_tokens;
  engine.max_sequences = capacity.num_sequences;
  engine.max_context = capacity.context;
  return engine;
}

size_t weight_bytes(const Config& config) { return total_bytes(tensor_specs(config)); }

size_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string field;
  for (size_t kibibytes = 0; meminfo >> field;) {
    if (field == "MemAvailable:" && meminfo >> kibibytes) return kibibytes << 10;
  }
  return SIZE_MAX;  // not Linux: the operating system will say
}

std::unique_ptr<Backend> load(const Model& model, const Settings& settings, const BackendOptions& options) {
  const BackendRow& row = find_backend(settings.backend);
  if (!row.is_device) check_memory(model, row, options);
  std::unique_ptr<Backend> backend = row.make(bring_weights(model, row), options);
  require_kernels(settings.require.value_or(""), row.name, backend->kernels());
  return backend;
}

}  // namespace nibble::cli
