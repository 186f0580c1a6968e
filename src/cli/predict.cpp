#include "cli/predict.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/measure/number_list.h"
#include "cli/measure/run_record.h"
#include "core/bytes_text.h"
#include "core/error.h"
#include "setup/model.h"
#include "setup/requirements.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPredictFooter{R"(
Nothing runs and nothing is loaded; no GPU is needed. The tests are those of `nibble bench`. Each operation takes the longest of
three times, since memory, the issue of instructions and the tensor cores work side by side, and a serial time in which none of
them does: the boundaries between launches, norms, the router, sums. "rules" is the largest of the four.

How much to believe: decoding on H100 and H200, also with launches for 96, 64 and 48 multiprocessors, is within 5 % of what was
measured; the model was fitted to these runs. On other chips instructions, bytes and serial parts are the same and only the chip's
rates are others, of which some are datasheets' ("expected"); nibble was not measured there. Prompts of 120b on an H200, in steps
of up to 8,192 tokens, are predicted 21 % too fast (512 tokens) and 1 % too fast (2,048 and 8,192).

--count N shares each layer among N of them, as --tensor-parallel-size does: heads, the experts' units, the vocabulary. Two sums a layer
then go over their link, in as long as NCCL takes for a row, or --sum-latency microseconds, beside their bytes. None of this could
be held to a measurement.

--multiprocessors and --shared-budget pretend as they do for the commands that run; memory that M multiprocessors cannot
take is then not read.

Examples:
  nibble predict synthetic:gpt-oss-120b --gpu gb10
  nibble predict synthetic:gpt-oss-120b --gpu gb10 -d 0,16384 --fp8-layers all --kv-dtype fp8
  nibble predict synthetic:gpt-oss-20b --gpu rtx5090 -p 512,2048 --max-batch-tokens 2048
  nibble predict synthetic:gpt-oss-120b --gpu h200 --multiprocessors 48
  nibble predict synthetic:gpt-oss-120b --gpu h200 --count 2 --sum-latency 3)"};

constexpr int kMaxPredictedTokens{1 << 20};

struct PredictOptions {
  std::string model, gpu;
  int count{1};
  std::optional<double> sum_latency{};  // microseconds
  std::vector<std::string> prompt_lengths{"2048"}, output_lengths{"128"}, depths{"0"};
  bool as_json{false};
};

// The result of `nibble predict`.
struct Predictions {
  std::string command_line, model;
  PredictedDevice device;
  int count{1};
  PredictedLink link{};  // where there are several
  std::string refusal;   // why nibble does not run the model there; empty where it does
  int max_batch_tokens{0};
  std::vector<PredictedTest> tests;
};

double bytes_per_second(const PredictedTest& test) {
  return static_cast<double>(test.bytes()) / test.microseconds() * 1e6;
}

void print_operations(const PredictedTest& test) {
  fmt::print("\n{}, a step{}, microseconds\n\n", name(test.test),
             test.num_steps > 1 ? fmt::format(" (mean of {})", test.num_steps) : "");
  fmt::print("| {:<12} | {:>8} | {:>10} | {:>9} | {:>9} | {:>9} | {:>9} | {:>9} | {:<8} |\n", "operation",
             "launches", "bytes", "memory", "issue", "products", "serial", "all", "rules");
  fmt::print("| {:-<12} | {:->8} | {:->10} | {:->9} | {:->9} | {:->9} | {:->9} | {:->9} | {:-<8} |\n", "",
             ":", ":", ":", ":", ":", ":", ":", "");
  for (const PredictedTime& row : test.operations)
    fmt::print("| {:<12} | {:>8} | {:>10} | {:9.1f} | {:9.1f} | {:9.1f} | {:9.1f} | {:9.1f} | {:<8} |\n",
               name(row.operation), row.num_launches, bytes_text(row.bytes), row.memory, row.issue,
               row.products, row.serial, row.total(), row.bound());
}

void print_text(const Predictions& found) {
  fmt::print("A prediction, not a measurement: {} on {}\n", found.model, found.device.description);
  if (found.count > 1)
    fmt::print(
        "{} of them, linked at {:.0f} GB/s one way ({}: {}), a sum of a row in {:.1f} us beside its bytes; "
        "shares are of one\n",
        found.count, found.link.bandwidth / 1e9, found.link.is_measured ? "measured" : "expected",
        found.link.source, found.link.sum_seconds * 1e6);
  if (!found.refusal.empty()) fmt::print("nibble does not run it there: {}\n", found.refusal);
  fmt::print("reads {:.0f} GB/s ({}: {})\n\n", found.device.read_bandwidth / 1e9,
             found.device.is_read_measured ? "measured" : "expected", found.device.read_source);
  fmt::print("| {:<18} | {:>9} | {:>7} | {:>7} |\n", "predicted", "t/s", "GB/s", "share");
  fmt::print("| {:-<18} | {:->9} | {:->7} | {:->7} |\n", "", ":", ":", ":");
  for (const PredictedTest& test : found.tests)
    fmt::print("| {:<18} | {:>9} | {:>7.0f} | {:>5.1f} % |\n", name(test.test),
               fmt::format("{:.{}f}", test.tokens_per_second(), test.tokens_per_second() < 1000 ? 1 : 0),
               bytes_per_second(test) / 1e9, 100 * bytes_per_second(test) / found.device.read_bandwidth);
  if (found.count > 1)
    for (const PredictedTest& test : found.tests)
      fmt::print(
          "{}: of a step's {:.1f} us, sums over the GPUs take {:.1f}; they are in what is serial of project "
          "and experts down\n",
          name(test.test), test.microseconds(), test.sums);
  for (const PredictedTest& test : found.tests) print_operations(test);
}

Json operations_json(const PredictedTest& test) {
  Json rows = Json::array();
  for (const PredictedTime& row : test.operations)
    rows.push_back({{"operation", name(row.operation)},
                    {"launches", row.num_launches},
                    {"bytes", row.bytes},
                    {"memory_us", row.memory},
                    {"issue_us", row.issue},
                    {"products_us", row.products},
                    {"serial_us", row.serial},
                    {"us", row.total()},
                    {"rules", row.bound()}});
  return rows;
}

void print_json(const Predictions& found) {
  Json json{{"is_prediction", true},
            {"command_line", found.command_line},
            {"model", found.model},
            {"gpu",
             {{"name", found.device.description},
              {"refusal", found.refusal.empty() ? Json() : Json(found.refusal)},
              {"read_bytes_per_second", found.device.read_bandwidth},
              {"is_read_measured", found.device.is_read_measured},
              {"read_source", found.device.read_source}}},
            {"num_gpus", found.count},
            {"max_batch_tokens", found.max_batch_tokens}};
  if (found.count > 1)
    json["link"] = {{"bytes_per_second", found.link.bandwidth},
                    {"sum_seconds", found.link.sum_seconds},
                    {"is_measured", found.link.is_measured},
                    {"source", found.link.source}};
  for (const PredictedTest& test : found.tests)
    json["tests"].push_back(
        {{"test", name(test.test)},
         {"kind", test.test.kind == BenchKind::kDecode ? "decode" : "prefill"},
         {"num_tokens", test.test.num_tokens},
         {"depth", test.test.depth},
         {"tokens_per_second", test.tokens_per_second()},
         {"num_steps", test.num_steps},
         {"bytes_per_step", test.bytes()},
         {"sums_us", test.sums},
         {"share_of_read_bandwidth", bytes_per_second(test) / found.device.read_bandwidth},
         {"operations", operations_json(test)}});
  fmt::print("{}", record_line(json));
}

int predict(const PredictOptions& options, Settings settings, const std::string& command_line) {
  const std::vector<BenchTest> tests =
      list_tests(read_numbers(options.prompt_lengths, "-p", 0, kMaxPredictedTokens),
                 read_numbers(options.output_lengths, "-n", 0, kMaxPredictedTokens),
                 read_numbers(options.depths, "-d", 0, kMaxPredictedTokens));
  if (tests.empty()) throw InputError("-p 0 and -n 0 leave nothing to predict");
  if (!settings.backend) settings.backend = "cuda";  // this machine may have no GPU
  ResolvedSettings setup = resolve(settings);
  setup.own.cuda.parts.assign(static_cast<size_t>(options.count), 1);
  const BackendRow& backend = *setup.backend;
  if (!backend.predict_on)
    throw InputError("--gpu {}: the backend {} runs on no GPU: leave --backend out", options.gpu,
                     backend.name);
  const Model model = open_model(options.model, setup.places);
  const BackendOptions room = room_for(tests, model.config, setup);
  RemoteKernels remote = backend.kernels_on(options.gpu, model.config, room, setup.own, model.source.name);
  check_requirements(setup.requirements, backend.name, remote.kernels);

  Predictions found{.command_line = command_line,
                    .model = model.source.name,
                    .device = {},
                    .count = options.count,
                    .refusal = remote.refusal,
                    .max_batch_tokens = room.max_batch_tokens,
                    .tests = {}};
  const StorageFormats formats = formats_of(model, setup);
  std::optional<double> sum_seconds;
  if (options.sum_latency) sum_seconds = *options.sum_latency * 1e-6;
  for (const BenchTest& test : tests) {
    std::vector<StepPrediction> steps;
    for (const TestStep& step : steps_of(test, room.max_batch_tokens))
      steps.push_back(backend.predict_on(
          options.gpu, model.config, formats, setup.own,
          {step.num_tokens, test.depth + step.offset + step.num_tokens, step.wants_next}, sum_seconds));
    found.device = steps.front().device;
    found.link = steps.front().link;
    found.tests.push_back(mean_of(test, steps));
  }
  options.as_json ? print_json(found) : print_text(found);
  return kDone;
}

}  // namespace

double PredictedTest::microseconds() const {
  double sum = 0;
  for (const PredictedTime& row : operations) sum += row.total();
  return sum;
}

size_t PredictedTest::bytes() const {
  size_t sum = 0;
  for (const PredictedTime& row : operations) sum += row.bytes;
  return sum;
}

double PredictedTest::tokens_per_second() const {
  return test.num_tokens / (microseconds() * num_steps) * 1e6;
}

PredictedTest mean_of(const BenchTest& test, std::span<const StepPrediction> steps) {
  PredictedTest mean{.test = test, .num_steps = static_cast<int>(steps.size()), .operations = {}};
  for (const StepPrediction& step : steps) mean.sums += step.sums / mean.num_steps;
  for (const Operation operation : kOperations) {
    PredictedTime sum{.operation = operation};
    bool is_there = false;
    for (const StepPrediction& step : steps)
      for (const PredictedTime& row : step.operations)
        if (row.operation == operation) {
          sum += row;
          is_there = true;
        }
    if (!is_there) continue;
    for (double* part : {&sum.memory, &sum.issue, &sum.products, &sum.serial}) *part /= mean.num_steps;
    sum.bytes /= steps.size();
    sum.num_launches = (sum.num_launches + mean.num_steps - 1) / mean.num_steps;
    mean.operations.push_back(sum);
  }
  return mean;
}

Action define_predict(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<PredictOptions>();
  add_model(command, options->model);
  command
      .add_option("--gpu", options->gpu, "the GPU, which need not be here: gb10, rtx5090, h200, sm_121, ...")
      ->type_name("NAME")
      ->required();
  command.add_option("--count", options->count, "so many of them share the model [1]")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--sum-latency", options->sum_latency,
                  "microseconds of a sum of one row over them, beside its bytes [as NCCL does it]")
      ->type_name("US")
      ->check(CLI::Range(0.0, 1e6))
      ->needs("--count");
  add_numbers(command, "-p,--prompt-lengths", options->prompt_lengths,
              "tokens of the prompts to prefill; 0: none");
  add_numbers(command, "-n,--output-lengths", options->output_lengths, "tokens to decode; 0: none");
  add_numbers(command, "-d,--depths", options->depths, "tokens in the KV cache before those");
  command.add_flag("--json", options->as_json, "one JSON object in place of the tables");
  add_settings(command, settings, {SettingGroup::kMachine, SettingGroup::kDevice, SettingGroup::kPlaces});
  command.footer(kPredictFooter);
  return [options, &settings, &command] { return predict(*options, settings, command_line(command)); };
}

}  // namespace nibble::cli
