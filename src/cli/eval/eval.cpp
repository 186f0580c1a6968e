// nibble eval: measures quality by perplexity, by tasks with exact answers, or against golden data.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/eval/compare.h"
#include "cli/eval/golden.h"
#include "cli/eval/perplexity.h"
#include "cli/eval/tasks.h"
#include "cli/measure/run_record.h"
#include "cli/nodes.h"
#include "cli/options.h"
#include "core/console/progress.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/system/clock.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "harmony/render.h"
#include "model/quantize.h"
#include "reference/rounded_golden.h"
#include "setup/model/model.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "turn/new_request.h"

namespace nibble::cli {
namespace {

constexpr const char* kEvalFooter{R"(
Give exactly one of --text, --tasks and --golden. With --compare the text is read twice on the same backend: by the model
quantised as --experts, --fp8-layers, --mxfp4-layers and --kv-dtype say, and by the unquantised model. If the backend does
not run the experts as they are in the file, the unquantised model has them in BF16.

With --golden the exit code is 1 if a prompt differs from the golden data by more than the tolerance printed at the end. A
backend with int8 activations is also compared with the reference backend, which then rounds in the same places; this takes
as long as the reference needs. Golden data without router margins is compared as if there were no near ties: with a BF16
cache, the choice of another expert then counts as a difference.

Examples:
  nibble eval tiny --text tests/golden/eval/prose.txt
  nibble eval tiny --text tests/golden/eval/prose.txt --compare --fp8-layers all --kv-dtype fp8
  nibble eval tiny --tasks tests/golden/eval/tasks.jsonl --backend reference
  nibble eval tiny --golden tests/golden/golden.json --json)"};

// Limit on the tokens of an answer. The bundled model's longest correct answer has 225 tokens.
constexpr int kMaxTaskTokens{512};

struct EvalOptions {
  std::string model;
  std::string text, tasks, golden;
  int window{1024};
  std::optional<int> limit;
  bool is_compared{false}, as_json{false}, is_verbose{false};
  std::string began, command_line;  // start and command line of this run, for --json
};

// Prints a result as JSON, after the members that every record has: date, program, machine, kernels.
void print_json(const EvalOptions& options, const ResolvedSettings& setup, const Backend& backend,
                const Json& result) {
  Json json = to_json(record_of_run(options.began, options.command_line, *setup.backend, backend, 0));
  json["model"] = options.model;
  json.update(result);
  fmt::print("{}\n", json_text(json, JsonForm::kIndented));
}

int eval_text(const EvalOptions& options, const ResolvedSettings& setup) {
  const std::string text = read_text_file(options.text);
  const Model model = open_model_for(options.model, setup);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const BackendOptions room = backend_options(model.config, setup, {options.window, 1});
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  const Stopwatch stopwatch;
  const Perplexity result = measure_perplexity(*backend, room, tokenizer,
                                               cut_windows(tokenizer, text, options.window, options.limit),
                                               show_progress("reading " + options.text, "tokens"));
  if (options.as_json) {
    print_json(options, setup, *backend,
               {{"backend", backend->name()},
                {"perplexity", result.per_token},
                {"bits_per_byte", result.bits_per_byte},
                {"window", options.window},
                {"num_windows", result.num_windows},
                {"num_scored", result.num_scored},
                {"seconds", stopwatch.seconds()}});
  } else {
    fmt::print(
        "perplexity {:.3f} per token, {:.3f} bits per byte: {} tokens scored in {} windows of {}, backend "
        "{}, {:.1f} s\n",
        result.per_token, result.bits_per_byte, result.num_scored, result.num_windows, options.window,
        backend->name(), stopwatch.seconds());
  }
  return kDone;
}

// Returns the format of expert activations, such as "INT8", in the steps that evaluate the windows.
std::string experts_activations(const std::vector<KernelChoice>& kernels) {
  std::string activations = "unknown";
  // Kernels are ordered by number of tokens, so the last one runs the longest steps.
  for (const KernelChoice& row : kernels)
    if (row.operation == Operation::kExpertsUp) activations = row.activations;
  return activations;
}

// Whether the experts of both models are stored and run in the same formats. Matrix::format() alone is BF16
// for ggml blocks that the reference backend reads as they are.
bool have_same_experts(const Model& a, const Model& b) {
  const auto is_same = [](const Matrix& one, const Matrix& other) {
    return one.stored.index() == other.stored.index() && one.format() == other.format() &&
           stored_name(one) == stored_name(other);
  };
  if (!a.weights || !b.weights) return true;
  return std::ranges::equal(a.weights->layers, b.weights->layers, [&](const auto& one, const auto& other) {
    return is_same(one.gate_up.first, other.gate_up.first) && is_same(one.down.first, other.down.first);
  });
}

int eval_compare(const EvalOptions& options, const ResolvedSettings& setup) {
  const std::string text = read_text_file(options.text);
  const Model model = open_model_for(options.model, setup);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const ResolvedSettings plain = unquantised(setup);
  const Model plain_model = open_unquantised_for(options.model, plain);
  const Format experts_in = experts_format(model, setup);
  const Capacity capacity{options.window, 1};
  const BackendOptions room = backend_options(model.config, setup, capacity);
  const BackendOptions plain_room = backend_options(model.config, plain, capacity);
  if (experts_in == experts_format(plain_model, plain) && have_same_experts(model, plain_model) &&
      room.dense == plain_room.dense && room.kv_format == plain_room.kv_format &&
      setup.own.cpu.expert_activations == plain.own.cpu.expert_activations &&
      setup.own.cuda.prompt_activations == plain.own.cuda.prompt_activations)
    throw InputError(
        "--compare needs a quantised setting: --experts, --fp8-layers, --mxfp4-layers, --kv-dtype fp8, "
        "--experts-activations int8 or --prompt-activations");
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  const std::unique_ptr<Backend> plain_backend = load(plain_model, plain, plain_room);
  const Stopwatch stopwatch;
  const QualityComparison result = compare_models(
      *backend, *plain_backend, room, cut_windows(tokenizer, text, options.window, options.limit),
      show_progress("reading " + options.text + " twice", "tokens"));
  const StorageFormats formats = formats_of(model, setup);
  const std::string_view qkv = name(formats.qkv), o = name(formats.attention_output),
                         lm_head = name(formats.unembedding), kv = name(formats.kv);
  const std::string experts = experts_activations(backend->kernels());
  if (options.as_json) {
    print_json(options, setup, *backend,
               {{"backend", backend->name()},
                {"formats",
                 {{"experts", name(experts_in)}, {"qkv", qkv}, {"o", o}, {"lm_head", lm_head}, {"kv", kv}}},
                {"experts_activations", experts},
                {"mean_kl", result.mean_kl},
                {"p99_kl", result.p99_kl},
                {"top1_agreement", result.top1_agreement},
                {"perplexity", result.perplexity},
                {"unquantised_perplexity", result.unquantised_perplexity},
                {"window", options.window},
                {"num_windows", result.num_windows},
                {"num_scored", result.num_scored},
                {"seconds", stopwatch.seconds()}});
  } else {
    fmt::print(
        "experts {}, qkv {}, o {}, lm_head {}, KV cache {}, experts' activations {}, against the unquantised "
        "model:\n"
        "KL divergence {:.3e} nats per token (99th percentile {:.3e}), top-1 agreement {:.2f} %, perplexity "
        "{:.3f} against {:.3f}\n"
        "{} tokens scored in {} windows of {}, backend {}, {:.1f} s\n",
        name(experts_in), qkv, o, lm_head, kv, experts, result.mean_kl, result.p99_kl,
        100 * result.top1_agreement, result.perplexity, result.unquantised_perplexity, result.num_scored,
        result.num_windows, options.window, backend->name(), stopwatch.seconds());
  }
  return kDone;
}

// Makes requests with temperature 0, whatever --temperature is: tasks have exact answers.
std::vector<GenerationRequest> task_requests(const std::vector<Task>& tasks, Settings settings,
                                             const Config& config, const Tokenizer& tokenizer, int context) {
  settings.temperature = 0;
  settings.max_tokens = kMaxTaskTokens;
  std::vector<GenerationRequest> requests;
  for (const Task& task : tasks)
    requests.push_back(make_request(harmony::render(task.conversation, tokenizer, {}).tokens, settings,
                                    config, tokenizer, context));
  return requests;
}

struct Score {
  int num_solved{0}, num_tasks{0};
};

void print_task_table(const std::vector<TaskResult>& results, bool is_verbose) {
  std::map<std::string, Score> scores;
  Score all, known;  // known: tasks with solved_by_checkpoint; known.num_solved: results that agree
  for (const TaskResult& result : results) {
    for (Score* score : {&scores[result.task], &all})
      *score = {score->num_solved + result.is_solved, score->num_tasks + 1};
    if (result.solved_by_checkpoint)
      known = {known.num_solved + (result.is_solved == *result.solved_by_checkpoint), known.num_tasks + 1};
    if (is_verbose && result.solved_by_checkpoint.value_or(true) != result.is_solved)
      fmt::print("{} {}: {}\n", result.id, result.is_solved ? "solved" : "not solved", result.text);
  }
  for (const auto& [task, score] : scores)
    fmt::print("{:16} {:4} of {:4}  {:5.1f} %\n", task, score.num_solved, score.num_tasks,
               100.0 * score.num_solved / score.num_tasks);
  fmt::print("{:16} {:4} of {:4}  {:5.1f} %\n", "all", all.num_solved, all.num_tasks,
             100.0 * all.num_solved / all.num_tasks);
  if (known.num_tasks > 0)
    fmt::print("{} of {} differ from solved_by_checkpoint\n", known.num_tasks - known.num_solved,
               known.num_tasks);
}

Json tasks_json(const std::vector<TaskResult>& results, std::string_view backend) {
  Json rows = Json::array();
  int num_solved = 0, num_different = 0;
  for (const TaskResult& result : results) {
    num_solved += result.is_solved;
    num_different += result.solved_by_checkpoint && *result.solved_by_checkpoint != result.is_solved;
    rows.push_back(
        {{"id", result.id}, {"task", result.task}, {"solved", result.is_solved}, {"text", result.text}});
  }
  return {{"backend", backend},
          {"num_tasks", results.size()},
          {"num_solved", num_solved},
          {"num_different_from_checkpoint", num_different},
          {"tasks", rows}};
}

int eval_tasks(const EvalOptions& options, const Settings& settings, const ResolvedSettings& setup) {
  std::vector<Task> tasks = read_tasks(read_text_file(options.tasks), options.tasks);
  if (options.limit && tasks.size() > static_cast<size_t>(*options.limit))
    tasks.resize(static_cast<size_t>(*options.limit));
  if (tasks.empty()) throw InputError("{} contains no tasks", options.tasks);
  const Model model = open_model_for(options.model, setup);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  std::vector<GenerationRequest> requests =
      task_requests(tasks, settings, model.config, tokenizer, context_of(model.config, setup));
  // Make room for the longest prompt and its answer, at most --context.
  size_t longest_prompt = 0;
  for (const GenerationRequest& request : requests)
    longest_prompt = std::max(longest_prompt, request.prompt.size());
  const Capacity capacity{
      std::min(context_of(model.config, setup), static_cast<int>(longest_prompt) + kMaxTaskTokens),
      setup.max_sequences};
  const BackendOptions room = backend_options(model.config, setup, capacity);
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  Engine engine(*backend, tokenizer, engine_options(setup, room, capacity));

  const Stopwatch stopwatch;
  const std::vector<TaskResult> results =
      run_tasks(engine, tokenizer, tasks, std::move(requests), show_progress("answering", "tasks"));
  size_t num_tokens = 0;
  for (const TaskResult& result : results) num_tokens += static_cast<size_t>(result.num_output_tokens);
  if (options.as_json) {
    print_json(options, setup, *backend, tasks_json(results, backend->name()));
  } else {
    print_task_table(results, options.is_verbose);
    fmt::print("backend {}, {} output tokens in {:.1f} s\n", backend->name(), num_tokens,
               stopwatch.seconds());
  }
  return kDone;
}

// Returns a function that recomputes golden prompts with the backend's rounding; null if rounding is minor.
AnswerRounded answer_rounded(const Model& model, const ResolvedSettings& setup, const BackendOptions& room,
                             const Backend& backend) {
  const auto rounding = setup.backend->accuracy.rounding(room, backend.kernels());
  if (!rounding || !model.weights) return {};  // synthetic weights exist only inside the backend
  const auto pool = std::make_shared<ThreadPool>(room.num_threads);
  const auto weights = quantise_dense(converted(model.weights, setup, model.source.name), room.dense, *pool);
  return [pool, weights, rounding = *rounding](const GoldenPrompt& prompt) {
    return reference::rounded_golden(*weights, prompt, rounding, *pool);
  };
}

int eval_golden(const EvalOptions& options, const ResolvedSettings& setup) {
  GoldenSet golden = read_golden(options.golden);
  const Model model = open_model_for(options.model, setup);
  if (golden.vocab != model.config.vocab)
    throw InputError("{} is for another model: its vocabulary has {} tokens, and that of {} has {}",
                     options.golden, golden.vocab, options.model, model.config.vocab);
  const BackendOptions room = backend_options(model.config, setup, {longest(golden), 1});
  const std::unique_ptr<Backend> backend = load(model, setup, room);
  const GoldenTolerance tolerance =
      setup.backend->accuracy.tolerance(model.config, golden, backend->kernels());
  if (options.limit && golden.prompts.size() > static_cast<size_t>(*options.limit))
    golden.prompts.resize(static_cast<size_t>(*options.limit));
  const std::vector<GoldenResult> results =
      compare_golden(*backend, room, {golden, tolerance, answer_rounded(model, setup, room, *backend)},
                     show_progress("comparing with " + options.golden, "tokens"));
  if (options.as_json)
    print_json(options, setup, *backend, golden_json(results, tolerance, backend->name()));
  else
    print_golden_table(results, tolerance, backend->name());
  const bool all_within = std::ranges::all_of(results, [](const GoldenResult& r) { return r.is_within; });
  return all_within ? kDone : kCheckFailed;
}

int eval(const EvalOptions& options, const Settings& settings) {
  const bool kinds[]{!options.text.empty(), !options.tasks.empty(), !options.golden.empty()};
  if (std::ranges::count(kinds, true) != 1)
    throw InputError("eval needs exactly one of --text FILE, --tasks FILE and --golden FILE");
  if (options.is_compared && options.text.empty()) throw InputError("--compare needs --text FILE");
  ResolvedSettings setup = resolve(settings);
  if (options.is_compared && setup.nodes)
    throw InputError("--compare does not work with --nodes: it runs two models at once");
  if (const auto code = follow_head(setup, options.model)) return *code;
  if (options.is_compared) return eval_compare(options, setup);
  if (!options.text.empty()) return eval_text(options, setup);
  return options.tasks.empty() ? eval_golden(options, setup) : eval_tasks(options, settings, setup);
}

}  // namespace

Action define_eval(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<EvalOptions>();
  add_model(command, options->model);
  add_value(command, "--text", "FILE", options->text, "perplexity of a text");
  add_value(command, "--tasks", "FILE", options->tasks,
            "accuracy on prompts with exact answers, greedy, as in a chat");
  add_value(command, "--golden", "FILE", options->golden,
            "agreement with the results of another implementation");
  command.add_flag("--compare", options->is_compared, "with --text: divergence from the unquantised model");
  add_value(command, "--window", "N", options->window, "with --text: tokens per window [1024]")
      ->check(CLI::Range(2, 1 << 20));
  add_value(command, "--limit", "N", options->limit, "only the first N windows, tasks or prompts")
      ->check(CLI::Range(1, 1 << 30));
  command.add_flag("--verbose", options->is_verbose,
                   "with --tasks: print the answers with an unexpected outcome");
  command.add_flag("--json", options->as_json, "print one JSON object");
  add_settings(command, settings,
               {SettingGroup::kMachine, SettingGroup::kBatch, SettingGroup::kCache, SettingGroup::kDevice,
                SettingGroup::kGpus, SettingGroup::kNodes, SettingGroup::kPlaces});
  command.footer(kEvalFooter);
  return [options, &settings, &command] {
    options->began = utc_now();
    options->command_line = command_line(command);
    return eval(*options, settings);
  };
}

}  // namespace nibble::cli
