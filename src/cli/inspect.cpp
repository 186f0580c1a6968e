// nibble inspect: shows a model's parts, the memory it needs, and the kernels that would run it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/measure/kernels_json.h"
#include "cli/options.h"
#include "cli/version.h"
#include "core/errors/error.h"
#include "core/system/available_bytes.h"
#include "core/text/bytes_text.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "formats/gguf.h"
#include "formats/open_container.h"
#include "model/checkpoint/synthetic.h"
#include "model/convert_experts.h"
#include "model/ops.h"
#include "setup/machine/verified.h"
#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/memory.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/drafters.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kInspectFooter{R"(
Loads nothing and makes no synthetic weights, so models that do not fit this machine can be inspected too.

Examples:
  nibble inspect tiny --tensors
  nibble inspect gpt-oss-20b.gguf
  nibble inspect synthetic:gpt-oss-120b --context 131072 --sequences 4
  nibble inspect openai/gpt-oss-20b --kernels
  nibble inspect synthetic:gpt-oss-120b --kernels --gpu gb10
  nibble inspect synthetic:gpt-oss-120b --kernels --gpu h100 --rows 16)"};

struct InspectOptions {
  std::string model;
  int num_sequences{1};
  bool show_tensors{false}, show_kernels{false}, as_json{false};
  std::optional<std::string> gpu;
  std::optional<int> num_rows;
};

struct TensorLine {
  std::string name;
  std::string_view format;  // "MXFP4" for codes and scales, otherwise the name of the dtype
  Shape shape;
  size_t num_bytes;
};

bool is_mxfp4(std::string_view name, DType dtype) {
  return dtype == DType::kU8 && (name.ends_with("blocks") || name.ends_with("scales"));
}

// Lists the tensors in the model's files, even if the model is incomplete. For synthetic weights, lists the
// tensors to generate.
std::vector<TensorLine> list_tensors(const ModelSource& source) {
  std::vector<TensorLine> lines;
  const auto add = [&](const std::string& name, DType dtype, const Shape& shape, size_t bytes) {
    lines.push_back({name, is_mxfp4(name, dtype) ? "MXFP4" : nibble::name(dtype), shape, bytes});
  };
  if (source.synthetic) {
    for (const TensorSpec& spec : tensor_specs(*source.synthetic))
      add(spec.name, spec.dtype, spec.shape, spec.num_bytes);
    return lines;
  }
  if (is_gguf(source.path)) {
    for (const GgufTensor& tensor : open_gguf(source.path).tensors)
      lines.push_back({tensor.name, nibble::name(tensor.type), tensor.shape, tensor.data.size()});
    return lines;
  }
  const Container container = std::filesystem::is_directory(source.path) ? open_container_folder(source.path)
                                                                         : open_container(source.path);
  for (const Tensor& tensor : container.tensors)
    add(tensor.name, tensor.dtype, tensor.shape, tensor.data.size());
  return lines;
}

size_t total_bytes(const std::vector<TensorLine>& tensors) {
  size_t bytes = 0;
  for (const TensorLine& tensor : tensors) bytes += tensor.num_bytes;
  return bytes;
}

// Returns the metadata of a GGUF file; empty for other files. Replaces an array (the vocabulary) by its
// length.
Json list_metadata(const ModelSource& source) {
  Json metadata = Json::object();
  if (!is_gguf(source.path)) return metadata;
  const Gguf gguf = open_gguf(source.path);
  for (const auto& [key, value] : gguf.metadata) {
    Json& shown = metadata[std::string(key)];
    if (value.type == GgufType::kArray)
      shown = fmt::format("[{} values]", value.count);
    else if (const auto text = value.text())
      shown = *text;
    else if (const auto flag = value.boolean())
      shown = *flag;
    else if (const auto integer = value.integer())
      shown = *integer;
    else if (const auto number = value.number())
      shown = *number;
  }
  return metadata;
}

std::map<std::string_view, size_t> bytes_by_format(const std::vector<TensorLine>& tensors) {
  std::map<std::string_view, size_t> bytes;
  for (const TensorLine& tensor : tensors) bytes[tensor.format] += tensor.num_bytes;
  return bytes;
}

// Returns the storage format of each matrix of a layer. Layers with equal formats use the same kernels.
std::vector<std::string> storage_of(const LayerWeights& layer) {
  std::vector<std::string> storage;
  for (const Matrix* matrix :
       {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router, &layer.gate_up.first, &layer.down.first})
    storage.push_back(stored_name(*matrix));
  return storage;
}

// Returns the first layer of each combination of storage formats.
std::vector<LayerWeights> layers_of_each_storage(const std::vector<LayerWeights>& layers) {
  std::vector<LayerWeights> chosen;
  for (const LayerWeights& layer : layers)
    if (std::ranges::none_of(
            chosen, [&](const LayerWeights& other) { return storage_of(other) == storage_of(layer); }))
      chosen.push_back(layer);
  return chosen;
}

// Lists the kernels of a smaller model, which is quick to make from synthetic weights or from views of mapped
// weights. The whole model has the same kernels, which depend only on formats and machine.
std::vector<KernelChoice> list_kernels(const Model& model, const ResolvedSettings& setup) {
  Config small = model.config;
  small.num_layers = 1;
  small.layer_kinds.resize(1);
  small.vocab = std::min(small.vocab, 256);
  small.num_experts = small.experts_per_token;
  Weights weights;
  if (model.weights) {
    weights = *model.weights;
    weights.layers = layers_of_each_storage(weights.layers);
    for (LayerWeights& layer : weights.layers)
      layer.router.rows = layer.router_bias.count = small.num_experts;
    small.num_layers = static_cast<int>(weights.layers.size());
    small.layer_kinds.clear();
    for (const LayerWeights& layer : weights.layers) small.layer_kinds.push_back(layer.kind);
    weights.config = small;
    weights.embedding.rows = weights.unembedding.rows = small.vocab;
  } else {
    weights = make_synthetic(small, model.source.name);
  }
  BackendOptions room = backend_options(small, setup, {kPageTokens, 1});
  room.draft_head = nullptr;  // A draft head for the whole model does not match the small one.
  auto taken = model.weights
                   ? converted(std::make_shared<const Weights>(std::move(weights)), setup, model.source.name)
                   : synthetic_with_experts(std::move(weights), setup);
  const auto kernels =
      setup.backend->making.make(std::move(taken), room, own_options(setup, model.config))->kernels();
  check_requirements(setup.requirements, setup.backend->name, kernels);
  return kernels;
}

// Lists the kernels that a GPU would run, from the model's configuration and formats. This machine may lack
// the GPU.
RemoteKernels list_kernels_on(const std::string& gpu, const Model& model, const ResolvedSettings& setup,
                              const Capacity& capacity) {
  if (!setup.backend->device)
    throw InputError("--gpu {} is only for GPUs, and the backend is {}: leave out --backend", gpu,
                     setup.backend->name);
  const BackendOptions room = backend_options(model.config, setup, capacity);
  RemoteKernels found =
      setup.backend->device->kernels_on(gpu, model.config, room, setup.own, model.source.name);
  check_requirements(setup.requirements, setup.backend->name, found.kernels);
  return found;
}

struct Report {
  Model model;
  std::vector<TensorLine> tensors;
  Json metadata;
  Capacity capacity{};
  std::string_view backend;
  MemoryPlan plan{};
  int64_t kv_tokens{0};
  size_t kept_weight_bytes{0};
  std::vector<OperationCost> decode{};  // costs of decoding one token at the end of a full context
  std::vector<KernelChoice> kernels{};  // empty unless --kernels is given
  std::string device{}, refusal{};      // empty unless --gpu is given
  std::optional<Verified> verified{};   // report of nibble verify for this machine's GPU, if present
  int num_gpus{1};                      // number of GPUs that share the model
  std::string draft_head{};             // folder and format of the draft head; empty without a draft head
  std::string draft_model{};            // name of the draft model; empty without a draft model
  size_t draft_model_bytes{0};
  int num_rows{0};               // --rows: tokens of a step; 0: not given
  std::vector<StepFact> step{};  // how a step of num_rows tokens runs

  std::string proof(const KernelChoice& row) const {
    return row.check.empty() || !device.empty() ? std::string()
                                                : proof_of(verified, row.check, this_build().commit);
  }
};

std::string describe(const Config& config) {
  const auto num_sliding = std::ranges::count(config.layer_kinds, LayerKind::kSliding);
  return fmt::format(
      "{} layers ({} with a window of {}, {} full), hidden {}, {} heads and {} key/value heads of {}, {} "
      "experts of width {} ({} per token), vocabulary {}, context up to {}",
      config.num_layers, num_sliding, config.window, config.num_layers - num_sliding, config.hidden,
      config.num_heads, config.num_kv_heads, config.head_dim, config.num_experts, config.intermediate,
      config.experts_per_token, config.vocab, config.max_context);
}

std::string describe(const RopeConfig& rope) {
  if (rope.factor == 1) return fmt::format("theta {}", rope.theta);
  return fmt::format("theta {}, YaRN factor {} from {} (fast {}, slow {}{})", rope.theta, rope.factor,
                     rope.original_context, rope.beta_fast, rope.beta_slow,
                     rope.truncate ? ", truncated" : "");
}

void print(const Report& report) {
  const Config& config = report.model.config;
  const ParameterCount parameters = count_parameters(config);
  fmt::print("{}{}{}\n", report.model.source.name, report.model.source.path.empty() ? "" : ": ",
             report.model.source.path.string());
  fmt::print("\nconfiguration\n  {}\n  rope: {}\n", describe(config), describe(config.rope));

  const size_t weights = total_bytes(report.tensors);
  fmt::print("\nweights\n  {} parameters, {} of them active per token; {} tensors, {} bytes ({})\n",
             parameters.total, parameters.active, report.tensors.size(), weights, bytes_text(weights));
  for (const auto& [format, bytes] : bytes_by_format(report.tensors))
    fmt::print("  {:<20} {:>10}  {:5.1f} %\n", format, bytes_text(bytes),
               100.0 * static_cast<double>(bytes) / static_cast<double>(weights));
  if (report.model.weights) fmt::print("  experts: {}\n", describe_experts(*report.model.weights));
  for (const std::string& adapter : report.model.adapters) fmt::print("  adapter: {}\n", adapter);

  const MemoryPlan& plan = report.plan;
  fmt::print("\nmemory for {} x {} tokens on backend {}{}{}{}\n", report.capacity.num_sequences,
             report.capacity.context, report.backend,
             report.num_gpus == 1 ? "" : fmt::format(", on the fullest of {} GPUs", report.num_gpus),
             report.draft_head.empty() ? "" : ", with the draft head ", report.draft_head);
  const size_t kept = report.kept_weight_bytes;
  fmt::print("  {:<20} {:>10}\n", "weights", bytes_text(kept));
  if (plan.weight_bytes > 0)
    fmt::print("  {:<20} {:>10}\n", "weights, own layout", bytes_text(plan.weight_bytes));
  fmt::print("  {:<20} {:>10}  {} tokens\n", "KV cache", bytes_text(plan.kv_bytes), report.kv_tokens);
  fmt::print("  {:<20} {:>10}\n", "workspace", bytes_text(plan.workspace_bytes));
  if (!report.draft_model.empty())
    fmt::print("  {:<20} {:>10}  {}\n", "draft model", bytes_text(report.draft_model_bytes),
               report.draft_model);
  fmt::print(
      "  {:<20} {:>10}  of {} available here\n", "total",
      bytes_text(kept + plan.weight_bytes + plan.kv_bytes + plan.workspace_bytes + report.draft_model_bytes),
      bytes_text(available_bytes()));

  const Cost all = total(report.decode);
  fmt::print("\none decoded token at position {} reads {} bytes ({})\n", report.capacity.context,
             all.bytes_touched(), bytes_text(all.bytes_touched()));
  for (const OperationCost& row : report.decode)
    fmt::print(
        "  {:<20} {:>10}  {:5.1f} %\n", name(row.operation), bytes_text(row.cost.bytes_touched()),
        100.0 * static_cast<double>(row.cost.bytes_touched()) / static_cast<double>(all.bytes_touched()));

  if (!report.kernels.empty())
    fmt::print("\nkernels on backend {}{}{}\n{}{}{}  {:<16} {:<8} {:<12} {:<6} {:<46} {}\n", report.backend,
               report.device.empty() ? "" : ", on ", report.device, report.refusal.empty() ? "" : "  ",
               report.refusal, report.refusal.empty() ? "" : "\n", "operation", "weights", "activations",
               "rows", "kernel", "reason");
  for (const KernelChoice& row : report.kernels)
    fmt::print("  {:<16} {:<8} {:<12} {:<6} {:<46} {}{}{}\n", name(row.operation), row.weights,
               row.activations, rows_text(row), row.kernel, row.reason, report.proof(row).empty() ? "" : "; ",
               report.proof(row));
  if (report.num_rows > 0)
    fmt::print("\na step of {} row{}\n", report.num_rows, report.num_rows == 1 ? "" : "s");
  for (const StepFact& fact : report.step) fmt::print("  {:<26} {}\n", fact.name, fact.value);
}

void print_metadata(const Json& metadata) {
  constexpr size_t kMaxShown{80};  // a chat template has thousands of characters
  for (const auto& [key, value] : metadata.items()) {
    const std::string text = json_text(value, JsonForm::kAsciiLine);
    fmt::print("{:<60} {}{}\n", key, text.substr(0, kMaxShown), text.size() > kMaxShown ? "..." : "");
  }
  if (!metadata.empty()) fmt::print("\n");
}

void print_tensors(const std::vector<TensorLine>& tensors) {
  for (const TensorLine& tensor : tensors)
    fmt::print("{:<60} {:<6} {:<24} {:>10}\n", tensor.name, tensor.format, fmt::to_string(tensor.shape),
               bytes_text(tensor.num_bytes));
  fmt::print("\n");
}

void print_json(const Report& report, bool with_tensors) {
  const ParameterCount parameters = count_parameters(report.model.config);
  Json json{{"model", report.model.source.name},
            {"path", report.model.source.path.string()},
            {"config", Json::parse(to_json(report.model.config))},
            {"num_parameters", parameters.total},
            {"num_active_parameters", parameters.active},
            {"num_tensors", report.tensors.size()},
            {"weight_bytes", total_bytes(report.tensors)}};
  if (!report.metadata.empty()) json["metadata"] = report.metadata;
  for (const auto& [format, bytes] : bytes_by_format(report.tensors))
    json["bytes_by_format"][std::string(format)] = bytes;
  if (report.model.weights) json["experts"] = describe_experts(*report.model.weights);
  if (!report.model.adapters.empty()) json["adapters"] = report.model.adapters;
  json["memory"] = {{"context", report.capacity.context},
                    {"num_sequences", report.capacity.num_sequences},
                    {"backend", report.backend},
                    {"own_weight_bytes", report.plan.weight_bytes},
                    {"kv_bytes", report.plan.kv_bytes},
                    {"kv_tokens", report.kv_tokens},
                    {"workspace_bytes", report.plan.workspace_bytes}};
  if (!report.draft_head.empty()) json["memory"]["draft_head"] = report.draft_head;
  if (!report.draft_model.empty())
    json["memory"]["draft_model"] = {{"model", report.draft_model}, {"bytes", report.draft_model_bytes}};
  json["bytes_per_decoded_token"] = total(report.decode).bytes_touched();
  for (const OperationCost& row : report.decode)
    json["bytes_by_operation"][std::string(name(row.operation))] = row.cost.bytes_touched();
  if (!report.kernels.empty()) json["kernels"] = kernels_json(report.kernels);
  for (size_t i = 0; i < report.kernels.size(); ++i)
    if (const std::string proof = report.proof(report.kernels[i]); !proof.empty())
      json["kernels"][i]["verified"] = proof;
  if (!report.device.empty())
    json["gpu"] = {{"name", report.device},
                   {"refusal", report.refusal.empty() ? Json() : Json(report.refusal)}};
  if (report.num_rows > 0) json["step"]["rows"] = report.num_rows;
  for (const StepFact& fact : report.step) json["step"][fact.name] = fact.value;
  if (with_tensors)
    for (const TensorLine& tensor : report.tensors)
      json["tensors"].push_back({{"name", tensor.name},
                                 {"format", tensor.format},
                                 {"shape", tensor.shape},
                                 {"bytes", tensor.num_bytes}});
  fmt::print("{}\n", json_text(json, JsonForm::kIndented));
}

void add_kernels(Report& report, const InspectOptions& options, const ResolvedSettings& setup) {
  if (options.gpu) {
    RemoteKernels found = list_kernels_on(*options.gpu, report.model, setup, report.capacity);
    report.kernels = std::move(found.kernels);
    report.device = std::move(found.device);
    report.refusal = std::move(found.refusal);
    if (options.num_rows && found.step) {
      report.num_rows = *options.num_rows;
      report.step = found.step(report.num_rows);
    }
  } else if (options.show_kernels || !setup.requirements.empty()) {
    report.kernels = list_kernels(report.model, setup);
    if (const auto facts = device_facts(*setup.backend))
      report.verified = read_verified(verified_path(*facts));
  }
}

int inspect(const InspectOptions& options, Settings settings) {
  if (options.gpu && !options.show_kernels) throw InputError("--gpu {} needs --kernels", *options.gpu);
  if (options.num_rows && !options.gpu)
    throw InputError("--rows {} needs --kernels and --gpu", *options.num_rows);
  if (options.gpu && !settings.backend) settings.backend = "cuda";  // this machine may have no GPU
  ResolvedSettings setup = resolve(settings);
  const ModelSource source = find_model(options.model, setup.places);
  std::vector<TensorLine> tensors = list_tensors(source);
  Json metadata = list_metadata(source);
  // Print these lists first: open_model() throws for an incomplete model, and the lists show what is missing.
  if (options.show_tensors && !options.as_json) {
    print_metadata(metadata);
    print_tensors(tensors);
  }

  Report report{.model = describe_model_for(options.model, setup),
                .tensors = std::move(tensors),
                .metadata = std::move(metadata),
                .backend = setup.backend->name,
                .num_gpus = setup.own.cuda.num_ranks()};
  const Config& config = report.model.config;
  report.capacity = {context_of(config, setup), options.num_sequences};
  open_drafters(setup, report.model, report.capacity);
  if (setup.options.draft_head)
    report.draft_head = fmt::format("{} in {}", setup.options.draft_head->source,
                                    nibble::name(setup.options.draft_head_format));
  if (setup.draft_model) {
    report.draft_model = setup.draft_model->model.source.name;
    report.draft_model_bytes = setup.draft_model_bytes;
  }
  const BackendOptions room = backend_options(config, setup, report.capacity);
  report.plan = memory_plan(report.model, setup, room);
  report.kv_tokens = kv_tokens(config, room, report.capacity.context);
  report.kept_weight_bytes = kept_weight_bytes(report.model, report.plan, setup);
  report.decode = step_costs(config, formats_of(report.model, setup), 1, report.capacity.context);
  add_kernels(report, options, setup);
  if (!options.show_kernels) report.kernels.clear();
  if (options.as_json)
    print_json(report, options.show_tensors);
  else
    print(report);
  return kDone;
}

}  // namespace

Action define_inspect(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<InspectOptions>();
  add_model(command, options->model);
  add_value(command, "--sequences", "N", options->num_sequences,
            "number of concurrent sequences for the memory plan [1]")
      ->check(CLI::Range(1, 1024));
  command.add_flag("--tensors", options->show_tensors,
                   "list every tensor (and GGUF metadata), even if the files are not a complete model");
  command.add_flag("--kernels", options->show_kernels, "the kernel that runs each operation here, and why");
  add_value(command, "--gpu", "NAME", options->gpu,
            "with --kernels: on this GPU instead, which need not be present: gb10, sm_121, ...");
  add_value(command, "--rows", "N", options->num_rows,
            "with --kernels --gpu: how a step of N rows runs there")
      ->check(CLI::Range(1, 8192));
  command.add_flag("--json", options->as_json, "one JSON object");
  add_settings(command, settings,
               {SettingGroup::kMachine, SettingGroup::kDrafts, SettingGroup::kDevice, SettingGroup::kGpus,
                SettingGroup::kPlaces});
  command.footer(kInspectFooter);
  return [options, &settings] { return inspect(*options, settings); };
}

}  // namespace nibble::cli
