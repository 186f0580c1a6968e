#include "setup/load.h"

#include <algorithm>
#include <fstream>

#include "core/bytes_text.h"
#include "core/error.h"
#include "core/log.h"
#include "core/progress.h"
#include "formats/gguf.h"
#include "kv/page_table.h"
#include "model/gguf_tokenizer.h"
#include "model/synthetic.h"
#include "setup/read_weights.h"
#include "setup/require.h"
#include "setup/tuning.h"

namespace nibble {
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

void check_memory(const Model& model, const BackendRow& backend, const BackendOptions& options,
                  const Settings& settings) {
  const MemoryPlan plan = backend.plan(model.config, options);
  const size_t weights = kept_weight_bytes(model, plan, settings) + plan.weight_bytes;
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

// The groups that a list names. Experts are MXFP4 in every checkpoint, so that "moe" changes nothing.
struct Groups {
  bool qkv{false}, o{false}, lm_head{false};
};
Groups read_groups(std::string_view flag, std::string_view list, bool takes_moe) {
  Groups groups;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    const bool all = name == "all";
    if (!all && name != "qkv" && name != "o" && name != "lm_head" && !(takes_moe && name == "moe"))
      throw InputError("{} '{}': accepted are {}qkv, o, lm_head, with commas between them, or all", flag,
                       name, takes_moe ? "moe, " : "");
    groups.qkv |= all || name == "qkv";
    groups.o |= all || name == "o";
    groups.lm_head |= all || name == "lm_head";
    list.remove_prefix(std::min(list.size(), name.size() + 1));
  }
  return groups;
}

// Of --mxfp4-layers and --fp8-layers.
DenseFormats dense_formats(const Settings& settings) {
  const Groups mxfp4 = read_groups("--mxfp4-layers", settings.mxfp4_layers.value_or(""), true);
  const Groups fp8 = read_groups("--fp8-layers", settings.fp8_layers.value_or(""), false);
  const auto choose = [](const char* name, bool is_mxfp4, bool is_fp8) {
    if (is_mxfp4 && is_fp8)
      throw InputError("--mxfp4-layers and --fp8-layers both name {}: it is held in one format", name);
    return is_mxfp4 ? Format::kMxfp4 : is_fp8 ? Format::kE4m3 : Format::kBf16;
  };
  return {choose("qkv", mxfp4.qkv, fp8.qkv), choose("o", mxfp4.o, fp8.o),
          choose("lm_head", mxfp4.lm_head, fp8.lm_head)};
}

Format kv_format(const Settings& settings) {
  return settings.kv_dtype == "fp8" ? Format::kE4m3 : Format::kBf16;
}

ExpertActivations expert_activations(const Settings& settings) {
  if (!settings.experts_activations) return ExpertActivations::kDefault;
  return *settings.experts_activations == "int8" ? ExpertActivations::kInt8 : ExpertActivations::kFloat;
}

// What the backend takes: weights in memory, or, on a device, descriptions of what it makes itself.
std::shared_ptr<const Weights> bring_weights(const Model& model, const BackendRow& row,
                                             const Settings& settings, const BackendOptions& options) {
  const bool takes_blocks = row.takes_blocks(options);
  if (model.weights && model.weights->make) {
    ThreadPool pool(settings.threads.value_or(0));
    model.weights->make(pool, show_progress("converting " + model.source.name),
                        takes_blocks ? MakeWhat::kAllButBlocks : MakeWhat::kAll);
  }
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
  const DenseFormats dense = dense_formats(settings);
  StorageFormats formats;
  if (model.weights) {
    formats = nibble::formats_of(*model.weights);
    const BackendOptions options = backend_options(model.config, settings, {kPageTokens, 1});
    if (!find_backend(settings.backend).takes_blocks(options)) {
      formats.embedding = model.weights->embedding.format;
      formats.qkv = model.weights->layers.front().q.format;
      formats.attention_output = model.weights->layers.front().o.format;
      formats.unembedding = model.weights->unembedding.format;
    }
  }
  if (dense.qkv != Format::kBf16) formats.qkv = dense.qkv;
  if (dense.attention_output != Format::kBf16) formats.attention_output = dense.attention_output;
  if (dense.unembedding != Format::kBf16) formats.unembedding = dense.unembedding;
  formats.kv = kv_format(settings);
  return formats;
}

Settings unquantised(Settings settings) {
  settings.mxfp4_layers.reset();
  settings.fp8_layers.reset();
  settings.kv_dtype = Settings{}.kv_dtype;
  if (settings.experts_activations) settings.experts_activations = "float";
  return settings;
}

Tokenizer open_tokenizer(const ModelSource& source, const Settings& settings) {
  if (settings.tokenizer)
    return *settings.tokenizer == "bytes" ? byte_tokenizer() : Tokenizer::open(*settings.tokenizer);
  if (source.synthetic) return byte_tokenizer();
  if (is_gguf(source.path))
    return Tokenizer::from_json(tokenizer_json(open_gguf(source.path)),
                                source.path.string() + ": its vocabulary as a tokenizer.json");
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
  if (const auto tuning =
          find_backend(settings.backend).retune ? read_tuning(settings, machine_name()) : std::nullopt) {
    options.num_threads = tuning->num_threads;
    options.tuning = tuning->cpu;
  }
  if (settings.threads) options.num_threads = *settings.threads;
  options.isa = settings.isa.value_or("");
  options.dense = dense_formats(settings);
  options.kv_format = kv_format(settings);
  options.expert_activations = expert_activations(settings);
  return options;
}

EngineOptions engine_options(const Settings& settings, const BackendOptions& options,
                             const Capacity& capacity) {
  EngineOptions engine;
  engine.num_full_pages = options.num_full_pages;
  engine.num_sliding_pages = options.num_sliding_pages;
  engine.max_batch_tokens = options.max_batch_tokens;
  engine.max_sequences = capacity.num_sequences;
  engine.max_context = capacity.context;
  engine.prefix_cache = settings.prefix_cache == "on";
  return engine;
}

size_t weight_bytes(const Config& config) { return total_bytes(tensor_specs(config)); }

size_t kept_weight_bytes(const Model& model, const MemoryPlan& plan, const Settings& settings) {
  const size_t all = weight_bytes(model.config);
  if (!model.weights) return all - plan.released_weight_bytes;
  if (!model.weights->make) return all - plan.replaced_weight_bytes;
  // What has blocks is not made, and what is in strips is counted in the plan; dense layers take what their blocks do.
  const BackendOptions options = backend_options(model.config, settings, {kPageTokens, 1});
  if (!find_backend(settings.backend).takes_blocks(options)) return all;
  const auto saved = [](const Matrix& matrix) {
    const size_t elements = static_cast<size_t>(matrix.rows) * static_cast<size_t>(matrix.cols);
    return num_bytes(matrix.format, elements) - num_bytes(stored_format(matrix), elements);
  };
  size_t kept = all - plan.released_weight_bytes;
  kept -= saved(model.weights->embedding) + saved(model.weights->unembedding);
  for (const LayerWeights& layer : model.weights->layers)
    kept -= saved(layer.q) + saved(layer.k) + saved(layer.v) + saved(layer.o);
  return kept;
}

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
  if (settings.experts_activations && !row.takes_expert_activations)
    throw InputError("--experts-activations {}: the backend {} has no such choice: leave it out",
                     *settings.experts_activations, row.name);
  if (!row.is_device) check_memory(model, row, options, settings);
  if (row.retune && (options.tuning != CpuTuning{} || (options.num_threads > 0 && !settings.threads)))
    log::info("as nibble tune found: {}", to_json(Tuning{options.num_threads, options.tuning}).dump());
  std::unique_ptr<Backend> backend = row.make(bring_weights(model, row, settings, options), options);
  require_kernels(settings.require.value_or(""), row.name, backend->kernels());
  return backend;
}

}  // namespace nibble
