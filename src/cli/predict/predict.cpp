// nibble predict: predicts speed and memory of a model from a cost model, for GPUs that may be absent here.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/measure/preset.h"
#include "cli/measure/run_record.h"
#include "cli/options.h"
#include "cli/predict/report.h"
#include "core/errors/error.h"
#include "kv/page_counts.h"
#include "setup/backend/requirements.h"
#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/memory.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kPredictFooter{R"(
Nothing is run or loaded, and no GPU is needed. The tests are those of `nibble bench`. The time of an operation is the
longest of three times that overlap, plus that of its launches and all-reduces ("serial"): bytes over bandwidth ("memory"),
weights over the rate at which they are converted ("issue"), and operations over the rate of the tensor cores ("products").
"rules" names the largest of the four.

Accuracy, on one H100 and one H200 (records/cuda-bench.jsonl, commit 2494259): decoding, one sequence within 14 % (median 3 %),
prompts within 25 % (median 3 %); prompts of 512 tokens have the largest error, and 2,048 tokens or more are within 8 %. On
other chips only the rates differ; some of these are from datasheets ("expected"). nibble has not been measured there.

--count N splits each layer across N GPUs, as --tensor-parallel-size does. Each of the two all-reduces of a layer takes NCCL's
time for one row (or --sum-latency microseconds) plus the transfer over the link. --expert-parallel also predicts whole experts
on each GPU, with the load of the fullest GPU, expected with random routing. Real routing is less even.

The memory is what `nibble serve` takes by default: 90 % of the GPU's memory, or 70 % if it is the host's memory. The KV cache
gets what weights and workspace leave. --context sets the maximum number of tokens per sequence.

--replicas R: R servers behind a gateway, each running --batch requests of -p and -n tokens in waves. The time of the
gateway itself and an uneven load are not counted. If the first --prefix-tokens of a prompt are one of --prefixes prefixes,
all equally likely, "cached" is the share of prompts whose prefix a replica still has: with round-robin routing each replica
gets all prefixes, with routing by prefix only its share. In a test with two servers of the bundled model this share was
within 3 % of the prompts; with the scheduler alone it was within 15 points.

--multiprocessors, --shared-budget and --prompt-activations work as in the commands that run a model; the last only for GPUs
that have block-scaled products. Their rate is from published measurements, and the share that kernels reach is a guess.

Examples:
  nibble predict synthetic:gpt-oss-120b --gpu gb10
  nibble predict synthetic:gpt-oss-120b --gpu gb10 -d 0,16384 --fp8-layers all --kv-dtype fp8
  nibble predict synthetic:gpt-oss-20b --gpu rtx5090 -p 512,2048 --max-batch-tokens 2048
  nibble predict synthetic:gpt-oss-120b --gpu h200 --multiprocessors 48
  nibble predict synthetic:gpt-oss-120b --gpu h200 --count 2 --sum-latency 3
  nibble predict synthetic:gpt-oss-120b --gpu h200 --count 2 --expert-parallel --batch 1,64,256
  nibble predict synthetic:gpt-oss-120b --gpu h200 --batch 1,8,64 --context 8192
  nibble predict synthetic:gpt-oss-120b --gpu h200 -p 1024 -n 256 --batch 32 --replicas 1,8,64)"};

constexpr int kMaxPredictedTokens{1 << 20}, kMaxSequences{1024}, kMaxReplicas{100000};

struct PredictOptions {
  std::string model, gpu;
  int count{1};
  // Duration of an all-reduce in microseconds; nullopt: predicted from the link.
  std::optional<double> sum_latency{};
  bool expert_parallel{false};
  std::vector<std::string> prompt_lengths{"2048"}, output_lengths{"128"}, depths{"0"}, batches{"1"},
      replicas{};
  int prefix_tokens{0}, num_prefixes{1};
  std::string preset;  // name of the preset; empty without a preset
  bool as_json{false};
};

class Predictor {
 public:
  Predictor(const PredictOptions& options, const ResolvedSettings& setup, const Model& model)
      : gpu_(options.gpu), setup_(setup), model_(model), formats_(formats_of(model, setup)) {
    if (options.sum_latency) sum_seconds_ = *options.sum_latency * 1e-6;
  }
  StepPrediction operator()(const PredictedStep& step, ExpertSplit split = ExpertSplit::kUnits) const {
    return setup_.backend->device->predict_on(gpu_, {model_.config, formats_}, setup_.own, step,
                                              {sum_seconds_, split});
  }
  const ResolvedSettings& setup() const { return setup_; }
  const Model& model() const { return model_; }

 private:
  const std::string& gpu_;
  const ResolvedSettings& setup_;
  const Model& model_;
  StorageFormats formats_;
  std::optional<double> sum_seconds_;
};

PredictedTest predict_test(const BenchTest& test, int num_sequences, int max_batch_tokens,
                           const Predictor& predictor, ExpertSplit split) {
  std::vector<StepPrediction> steps;
  for (const TestStep& step : steps_of(test, max_batch_tokens))
    steps.push_back(predictor(
        {step.num_tokens, test.depth + step.offset + step.num_tokens, step.wants_next, num_sequences},
        split));
  return mean_of(test, steps, num_sequences);
}

// Returns, for each GPU, the bytes for weights, workspace and KV cache if no other program runs.
std::vector<size_t> budgets_of(const ResolvedSettings& setup, const PredictedDevice& device) {
  const DeviceMemory memory{device.memory_bytes, device.memory_bytes, device.uses_host_memory};
  return std::vector<size_t>(setup.own.cuda.parts.size(),
                             memory_budget(memory, memory_share(setup, device.uses_host_memory)));
}

PredictedMemory predict_memory(const Model& model, const ResolvedSettings& setup,
                               const PredictedDevice& device, std::span<const int> batches) {
  const int context = context_of(model.config, setup);
  const auto plan = [&](int num_sequences) {
    return setup.backend->memory.plan(
        model.config, backend_options(model.config, setup, {context, num_sequences}), setup.own);
  };
  const MemoryPlan one = plan(1);
  const std::vector<size_t> budgets = budgets_of(setup, device);
  PredictedMemory memory{.total_bytes = device.memory_bytes,
                         .budget_bytes = budgets.front(),
                         .weight_bytes = one.weight_bytes,
                         .workspace_bytes = one.workspace_bytes,
                         .sequence_bytes = plan(2).kv_bytes - one.kv_bytes,
                         .context = context};
  memory.most_sequences = most_sequences(model, setup, context, budgets);
  for (const int num_sequences : batches) {
    const BackendOptions room = serving_options(model, setup, {context, num_sequences}, budgets);
    const int free_pages = room.num_pages - num_sequences * least_pages(context, model.config.window);
    const bool fits = num_sequences <= memory.most_sequences;
    memory.rows.push_back({num_sequences, fits ? int64_t{free_pages} * kPageTokens : -1});
  }
  return memory;
}

Request request_of(const PredictOptions& options, std::span<const BenchTest> tests, int context) {
  Request request{.prefix_tokens = options.prefix_tokens, .num_prefixes = options.num_prefixes};
  int num_lengths = 0;
  for (const BenchTest& test : tests) {
    (test.kind == BenchKind::kPrefill ? request.prompt_tokens : request.answer_tokens) = test.num_tokens;
    ++num_lengths;
  }
  if (num_lengths != 2 || request.prompt_tokens == 0 || request.answer_tokens == 0)
    throw InputError("--replicas needs one -p and one -n, and no -d");
  if (request.num_tokens() > context)
    throw InputError("--replicas: requests of {} tokens need a larger --context than {}",
                     request.num_tokens(), context);
  if (request.prefix_tokens > request.prompt_tokens)
    throw InputError("--prefix-tokens {}: prompts have only {} tokens", request.prefix_tokens,
                     request.prompt_tokens);
  return request;
}

// Predicts round-robin routing. With several replicas and shared prefixes, also predicts routing by prefix.
std::vector<PredictedReplicas> predict_replicas(const Request& request, std::span<const int> counts,
                                                const PredictedMemory& memory, const PredictedDevice& device,
                                                const Predictor& predictor) {
  const Model& model = predictor.model();
  if (!counts.empty() && memory.most_sequences == 0)
    throw InputError("--replicas: no sequence of {} tokens fits", memory.context);
  const StepSeconds seconds = [&](const PredictedStep& step) {
    return total_of(predictor(step).operations) / 1e6;
  };
  const std::vector<size_t> budgets = budgets_of(predictor.setup(), device);
  std::vector<PredictedReplicas> found;
  for (const int count : counts)
    for (const PredictedMemory::Row& row : memory.rows) {
      const BackendOptions room =
          serving_options(model, predictor.setup(), {memory.context, row.num_sequences}, budgets);
      const int num_running = std::min(
          row.num_sequences, room.num_pages / least_pages(request.num_tokens(), model.config.window));
      for (const bool by_prefix : {false, true})
        if (!by_prefix || (count > 1 && request.prefix_tokens > 0))
          found.push_back(replicas_of(room, model.config, request, {count, num_running, by_prefix}, seconds));
    }
  return found;
}

// Refuses settings that predictions ignore, because the figures would seem to include their effect.
void refuse_what_has_no_effect(const Settings& settings) {
  if (!settings.graphs) throw InputError("--no-graphs is not supported by predict; leave it out");
}

// Prints the expected duration of each run of a preset of bench.
int predict_preset(const PredictOptions& options, Settings settings) {
  if (!settings.backend) settings.backend = "cuda";
  const std::vector<PresetRun> runs = preset_runs(options.preset, false);
  std::vector<std::optional<double>> seconds;
  for (const PresetRun& run : runs) {
    const ResolvedSettings setup = resolve(settings_of(run, settings));
    if (!setup.backend->device) throw InputError("--preset needs --backend cuda");
    const Model model = describe_model_for(options.model, setup);
    const Predictor predictor(options, setup, model);
    const StepPrediction any = predictor({});
    const int max_batch_tokens =
        settings.max_batch_tokens.value_or(setup.backend->making.batch_sizes(options.gpu).max_batch_tokens);
    if (seconds.empty())
      fmt::print("A prediction, not a measurement: {} on {}\n\n", model.source.name, any.device.description);
    seconds.emplace_back(expected_seconds(
        run, kNumWarmups + kPresetRepetitions, max_batch_tokens,
        [&](const PredictedStep& step) { return total_of(predictor(step).operations) / 1e6; }));
  }
  fmt::print("{}", plan_text(runs, seconds));
  return kDone;
}

int predict(const PredictOptions& options, Settings settings, const std::string& command_line) {
  refuse_what_has_no_effect(settings);
  if (!options.preset.empty()) return predict_preset(options, settings);
  const std::vector<BenchTest> tests =
      list_tests(read_numbers(options.prompt_lengths, "-p", 0, kMaxPredictedTokens),
                 read_numbers(options.output_lengths, "-n", 0, kMaxPredictedTokens),
                 read_numbers(options.depths, "-d", 0, kMaxPredictedTokens));
  if (tests.empty()) throw InputError("-p 0 and -n 0 leave nothing to predict");
  if (options.expert_parallel && options.count == 1)
    throw InputError("--expert-parallel needs several GPUs: --count N");
  const std::vector<int> batches = read_numbers(options.batches, "--batch", 1, kMaxSequences),
                         replicas = read_numbers(options.replicas, "--replicas", 1, kMaxReplicas);
  if (!settings.backend) settings.backend = "cuda";  // this machine may have no GPU
  ResolvedSettings setup = resolve(settings);
  setup.own.cuda.parts.assign(static_cast<size_t>(options.count), 1);
  const BackendRow& backend = *setup.backend;
  if (!backend.device)
    throw InputError("--gpu {} is only for GPUs, and the backend is {}: leave out --backend", options.gpu,
                     backend.name);
  const Model model = describe_model_for(options.model, setup);
  const Predictor predictor(options, setup, model);
  const StepPrediction any = predictor({});
  if (!settings.max_batch_tokens)
    setup.options.max_batch_tokens = backend.making.batch_sizes(options.gpu).max_batch_tokens;
  const BackendOptions room = room_for(tests, model.config, setup);
  RemoteKernels remote =
      backend.device->kernels_on(options.gpu, model.config, room, setup.own, model.source.name);
  check_requirements(setup.requirements, backend.name, remote.kernels);

  Predictions found{.command_line = command_line,
                    .model = model.source.name,
                    .device = any.device,
                    .count = options.count,
                    .link = any.link,
                    .refusal = remote.refusal,
                    .max_batch_tokens = room.max_batch_tokens,
                    .tests = {},
                    .of_experts = {},
                    .memory = predict_memory(model, setup, any.device, batches),
                    .request = {},
                    .replicas = {}};
  for (const BenchTest& test : tests)
    for (const int num_sequences : test.kind == BenchKind::kDecode ? batches : std::vector{1}) {
      const auto predicted = [&](ExpertSplit split) {
        return predict_test(test, num_sequences, room.max_batch_tokens, predictor, split);
      };
      found.tests.push_back(predicted(ExpertSplit::kUnits));
      if (options.expert_parallel) found.of_experts.push_back(predicted(ExpertSplit::kWhole));
    }
  if (!replicas.empty()) {
    found.request = request_of(options, tests, found.memory.context);
    found.replicas = predict_replicas(found.request, replicas, found.memory, found.device, predictor);
  }
  options.as_json ? print_json(found) : print_text(found);
  return kDone;
}

}  // namespace

Action define_predict(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<PredictOptions>();
  add_model(command, options->model);
  add_value(command, "--gpu", "NAME", options->gpu,
            "the GPU, which need not be present: gb10, rtx5090, h200, sm_121, ...")
      ->required();
  add_value(command, "--count", "N", options->count, "number of these GPUs that share the model [1]")
      ->check(CLI::Range(1, 1024));
  add_value(command, "--sum-latency", "US", options->sum_latency,
            "latency of an all-reduce of one row in microseconds, without transfer [NCCL's]")
      ->check(CLI::Range(0.0, 1e6))
      ->needs("--count");
  command
      .add_flag("--expert-parallel", options->expert_parallel,
                "also predict whole experts on each GPU, instead of a part of every expert")
      ->needs("--count");
  add_numbers(command, "-p,--prompt-lengths", options->prompt_lengths, "prompt lengths to prefill; 0: none");
  add_numbers(command, "-n,--output-lengths", options->output_lengths, "tokens to decode; 0: none");
  add_numbers(command, "-d,--depths", options->depths, "tokens already in the KV cache");
  add_numbers(command, "--batch", options->batches, "number of sequences that decode together");
  add_numbers(command, "--replicas", options->replicas,
              "number of servers behind a gateway, with requests of -p tokens in and -n out");
  add_value(command, "--prefix-tokens", "N", options->prefix_tokens,
            "length of the prefix that prompts share [0]")
      ->check(CLI::Range(0, kMaxPredictedTokens))
      ->needs("--replicas");
  add_value(command, "--prefixes", "N", options->num_prefixes,
            "number of different prefixes, used equally often [1]")
      ->check(CLI::Range(1, kMaxPredictedTokens))
      ->needs("--replicas");
  CLI::Option* preset = add_value(command, "--preset", "NAME", options->preset,
                                  "only how long each run of this preset of bench would take");
  command.add_flag("--json", options->as_json, "one JSON object instead of the tables")->excludes(preset);
  add_settings(command, settings, {SettingGroup::kMachine, SettingGroup::kDevice, SettingGroup::kPlaces});
  command.footer(kPredictFooter);
  return [options, &settings, &command] {
    if (!options->preset.empty())
      for (const char* flag : {"-p", "-n", "-d", "--batch", "--replicas", "--count"})
        if (is_given(command, *command.get_option(flag)))
          throw InputError("{} does not work with --preset, which has tests for one GPU", flag);
    return predict(*options, settings, command_line(command));
  };
}

}  // namespace nibble::cli
