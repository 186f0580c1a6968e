#include "cli/profile/profile.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <memory>

#include "cli/command.h"
#include "cli/measure/backend_sequence.h"
#include "cli/measure/run_record.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "cli/options.h"
#include "cli/profile/compare.h"
#include "cli/profile/kernel_times.h"
#include "cli/profile/parts.h"
#include "core/errors/error.h"
#include "core/files/new_file.h"
#include "core/system/clock.h"
#include "core/text/bytes_text.h"
#include "core/text/json.h"
#include "core/threads/thread_pool.h"
#include "setup/model/model.h"
#include "setup/plan/experts.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/drafters.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kProfileFooter{R"(
Repeats one step: -s sequences with -d tokens each in the KV cache get -p new tokens each (1: decode). On a GPU each launch
records when its first block could begin and when its last block ended; gaps are the times between launches. The parts add
up to the recorded step; the line below the table is a step without recording, by the host's clock. Norms that an operation
computes itself count as part of it; "launches" of the CPU are operations. TFLOP/s counts matrix products: a part is bound by
memory if its share is high, and by products if TFLOP/s is near what the chip can do. With a draft head, 3 tokens (or the
number of --speculative-config) are drafted after every step; "draft head" is the time that this adds.

--kernels adds a table with a row for each kernel: its time in a step, its launches with the median and the 99th percentile of
their times, the bytes that it has to read and the multiplications and additions of its products. An operation that several
kernels compute counts for the longest of them; one without a kernel of its own counts for the longest kernel of its part.

Examples:
  nibble profile synthetic:gpt-oss-120b
  nibble profile synthetic:gpt-oss-120b -d 16384 --mxfp4-layers all
  nibble profile synthetic:gpt-oss-120b -s 64 -d 160 --temperature 1 --kernels
  nibble profile synthetic:gpt-oss-120b --speculate eagle3=FOLDER
  nibble profile synthetic:gpt-oss-120b -p 2048 --max-batch-tokens 2048 --trace step.json
  nibble profile compare bf16.json mxfp4.json   # two profiles of --json)"};

struct ProfileOptions {
  std::string model;
  int num_tokens{1}, depth{0}, num_sequences{1}, num_repetitions{20}, num_warmups{kNumWarmups};
  float temperature{0};
  std::optional<std::string> trace;
  bool by_kernel{false}, as_json{false};
};

// A step that can be repeated. Its sequences have equal lengths and equal numbers of new tokens; each
// sequence samples one token.
class ProfiledStep {
 public:
  ProfiledStep(Backend& backend, const BackendOptions& room, const ProfileOptions& options, int num_drafts)
      : sample_{.temperature = options.temperature},
        last_{.token_index = options.num_tokens - 1, .sample = &sample_, .prompt = {}, .output = {}} {
    const int length = options.depth + options.num_tokens, vocab = backend.config().vocab;
    sequences_.emplace_back(backend, room);
    while (static_cast<int>(sequences_.size()) < options.num_sequences)
      sequences_.push_back(sequences_.front().beside());
    for (int n = 0; n < options.num_sequences; ++n) {
      BackendSequence& sequence = sequences_[static_cast<size_t>(n)];
      sequence.feed(tokens_at(n * length, options.depth, vocab));
      sequence.reserve(options.num_tokens);
      tokens_.push_back(tokens_at(n * length + options.depth, options.num_tokens, vocab));
      runs_.push_back(sequence.run_of(tokens_.back(), 0, {&last_, 1}));
      if (num_drafts > 0) runs_.back().draft_request = {.num_tokens = num_drafts};
    }
  }
  ProfiledStep(const ProfiledStep&) = delete;

  Batch batch() const { return {runs_, false}; }

 private:
  SampleParams sample_;
  OutputRow last_;
  std::deque<BackendSequence> sequences_;
  std::deque<std::vector<TokenId>> tokens_;
  std::vector<Run> runs_;
};

struct Steps {
  std::vector<std::vector<TimedWork>> recorded;
  std::vector<double> unrecorded;  // microseconds of each step that ran without recording its kernels
};

// Alternates recorded and unrecorded steps, so that a change of the machine's speed affects both.
Steps run_steps(Backend& backend, const Batch& batch, const ProfileOptions& options) {
  for (int warmup = 0; warmup < options.num_warmups; ++warmup) backend.step(batch);
  Steps steps;
  for (int repetition = 0; repetition < options.num_repetitions; ++repetition) {
    steps.recorded.push_back(backend.profile(batch));
    const Stopwatch watch;
    backend.step(batch);
    steps.unrecorded.push_back(watch.seconds() * 1e6);
  }
  return steps;
}

struct Profile {
  RunRecord record;
  std::string model, backend;
  int num_threads{0}, num_tokens{0}, depth{0}, num_sequences{0}, num_repetitions{0};
  int num_drafts{0};         // tokens per sequence that the draft head drafts; 0 without a draft head
  double read_bandwidth{0};  // bytes per second
  std::vector<PartTime> parts;
  std::vector<KernelTime> kernels;
  SampleStatistics unrecorded;  // microseconds of the steps that ran without recording their kernels

  Reuse reuse() const { return reuse_of(parts, record.machine.backend_cache_bytes()); }
};

double flops_per_second(const PartTime& part) {
  return part.microseconds > 0 ? static_cast<double>(part.flops) / part.microseconds * 1e6 : 0;
}

double share_of(const PartTime& part, double read_bandwidth) {
  return part.microseconds > 0 ? static_cast<double>(part.bytes) / part.microseconds * 1e6 / read_bandwidth
                               : 0;
}

PartTime sum_of(const std::vector<PartTime>& parts) {
  PartTime all{.part = "recorded step"};
  for (const PartTime& part : parts) {
    all.microseconds += part.microseconds;
    all.num_launches += part.num_launches;
    all.bytes += part.bytes;
    all.flops += part.flops;
  }
  return all;
}

void print_table(const Profile& profile) {
  const PartTime all = sum_of(profile.parts);
  const double total = all.microseconds;
  fmt::print("| {:<20} | {:>9} | {:>7} | {:>8} | {:>10} | {:>7} | {:>6} | {:>7} |\n", "part", "us", "of step",
             "launches", "bytes", "GB/s", "share", "TFLOP/s");
  fmt::print("| {:-<20} | {:->9} | {:->7} | {:->8} | {:->10} | {:->7} | {:->6} | {:->7} |\n", "", ":", ":",
             ":", ":", ":", ":", ":");
  const auto row = [&](const PartTime& part) {
    const double share = share_of(part, profile.read_bandwidth);
    fmt::print("| {:<20} | {:9.1f} | {:5.1f} % | {:8} | {:>10} | {:7.1f} | {:4.1f} % | {:7.3g} |\n",
               part.part, part.microseconds, 100 * part.microseconds / total, part.num_launches,
               bytes_text(part.bytes), share * profile.read_bandwidth / 1e9, 100 * share,
               flops_per_second(part) / 1e12);
  };
  for (const PartTime& part : profile.parts) row(part);
  row(all);
  fmt::print(
      "\n- read bandwidth measured here: {:.1f} GB/s; a step without recording, by the host's clock: {:.1f} "
      "us, {:+.1f} % against the recorded step\n",
      profile.read_bandwidth / 1e9, profile.unrecorded.median, 100 * (profile.unrecorded.median / total - 1));
  if (const Reuse reuse = profile.reuse(); reuse.fits()) fmt::print("- {}\n", in_caches_text(reuse));
  for (const std::string& line : contradictions(profile.parts, profile.read_bandwidth, profile.reuse()))
    fmt::print("- contradiction: {}\n", line);
}

void print_kernels(const Profile& profile) {
  fmt::print("\n{}",
             kernel_table(profile.kernels, profile.read_bandwidth, sum_of(profile.parts).microseconds));
}

Json profile_json(const Profile& profile) {
  Json json = to_json(profile.record);
  json["machine"]["read_bytes_per_second"] = profile.read_bandwidth;
  json["model"] = profile.model;
  json["backend"] = profile.backend;
  json["threads"] = profile.num_threads;
  json["num_tokens"] = profile.num_tokens;
  json["depth"] = profile.depth;
  json["num_sequences"] = profile.num_sequences;
  json["num_drafts"] = profile.num_drafts;
  json["num_repetitions"] = profile.num_repetitions;
  json["step_us"] = profile.unrecorded.median;
  json["step_us_standard_deviation"] = profile.unrecorded.standard_deviation;
  json["in_caches"] = profile.reuse().fits();
  json["contradictions"] = contradictions(profile.parts, profile.read_bandwidth, profile.reuse());
  for (const PartTime& part : profile.parts)
    json["parts"].push_back({{"part", part.part},
                             {"us", part.microseconds},
                             {"us_standard_deviation", part.deviation},
                             {"launches", part.num_launches},
                             {"bytes", part.bytes},
                             {"share_of_read_bandwidth", share_of(part, profile.read_bandwidth)},
                             {"flops", part.flops},
                             {"flops_per_second", flops_per_second(part)}});
  json["kernel_times"] = to_json(profile.kernels, profile.read_bandwidth);
  return json;
}

// Returns the number of tokens per sequence that a draft head drafts after the step; 0 without a draft head.
// Drafters without weights (n-gram, suffix) take no device time and are ignored.
int drafts_of_head(const speculative::SpeculationOptions& asked, int num_sequences) {
  if (!asked.draft_model.empty())
    throw InputError(
        "profile shows the steps of one model: leave out the draft model, or profile it separately");
  if (asked.draft_head.empty()) return 0;
  if (num_sequences > kMaxDraftingRuns)
    throw InputError("-s {}: a draft head supports at most {} sequences per step", num_sequences,
                     kMaxDraftingRuns);
  constexpr int kUsual{3};
  return asked.by_cost ? kUsual : asked.max_drafts;
}

int profile(const ProfileOptions& options, const Settings& settings, const std::string& command_line) {
  const std::string began = utc_now();
  if (options.trace) refuse_unread_fifo(*options.trace);
  ResolvedSettings setup = resolve(settings);
  const BackendRow& row = *setup.backend;
  const Model model = open_model_for(options.model, setup);
  const int num_drafts = drafts_of_head(setup.speculation, options.num_sequences);
  if (num_drafts > 0)
    open_drafters(setup, model, {options.depth + options.num_tokens + num_drafts, options.num_sequences});
  const BenchTest test{BenchKind::kPrefill, options.num_tokens, options.depth};
  const BackendOptions room = room_for({&test, 1}, model.config, setup, options.num_sequences);
  if (options.num_tokens > room.max_batch_tokens / options.num_sequences)
    throw InputError("-p {} for {} sequence{}: a step has at most {} tokens (--max-batch-tokens)",
                     options.num_tokens, options.num_sequences, options.num_sequences == 1 ? "" : "s",
                     room.max_batch_tokens);
  const double bandwidth = setup.backend->memory.read_bandwidth(setup.own);
  const std::unique_ptr<Backend> backend = load(model, setup, room);

  const ProfiledStep step(*backend, room, options, num_drafts);
  const auto [recorded, unrecorded] = run_steps(*backend, step.batch(), options);
  if (recorded.front().empty())
    throw InputError("the backend {} does not support profile; use cpu or cuda", backend->name());

  const std::vector<OperationCost> costs =
      step_costs(model.config, formats_of(model, setup), options.num_tokens,
                 options.depth + options.num_tokens, options.num_sequences);
  const Profile profile{
      .record = record_of_run(began, command_line, row, *backend, options.num_warmups),
      .model = model.source.name,
      .backend = std::string(backend->name()),
      .num_threads = room.num_threads > 0 ? room.num_threads : num_usable_cores(),
      .num_tokens = options.num_tokens,
      .depth = options.depth,
      .num_sequences = options.num_sequences,
      .num_repetitions = options.num_repetitions,
      .num_drafts = num_drafts,
      .read_bandwidth = bandwidth,
      .parts = part_times(
          recorded,
          {costs, num_drafts > 0
                      ? bytes_of(room.draft_head->config, room.draft_head_format).of_step(num_drafts)
                      : 0}),
      .kernels = kernel_times(recorded, costs),
      .unrecorded = statistics_of(unrecorded)};
  options.as_json ? fmt::print("{}", record_line(profile_json(profile))) : print_table(profile);
  if (options.by_kernel && !options.as_json) print_kernels(profile);
  if (options.trace) {
    std::ofstream file(*options.trace);
    file << chrome_trace(recorded.back());
    if (!file.flush()) throw InputError("--trace {}: cannot be written", *options.trace);
  }
  return kDone;
}

}  // namespace

std::vector<PartTime> part_times(std::span<const std::vector<TimedWork>> repetitions,
                                 const StepBytes& bytes) {
  std::vector<PartTime> parts;
  for (const std::string_view name : kPartNames) parts.push_back({.part = name});
  for (const TimedWork& work : repetitions.front()) ++parts[part_of(work)].num_launches;
  for (const OperationCost& row : bytes.operations) {
    parts[part_of(row.operation)].bytes += row.cost.bytes_touched();
    parts[part_of(row.operation)].flops += row.cost.flops;
  }

  parts[kDraftPart].bytes = bytes.of_drafts;

  std::vector<std::vector<double>> times(kPartNames.size() + 1);
  for (const std::vector<TimedWork>& step : repetitions) {
    std::vector<double> sums(times.size());
    const std::vector<OwnTime> own = own_times(step);
    for (size_t i = 0; i < own.size(); ++i) {
      sums.back() += own[i].idle;
      sums[part_of(step[i])] += own[i].busy;
    }
    for (size_t part = 0; part < sums.size(); ++part) times[part].push_back(sums[part]);
  }
  parts.push_back({.part = "gaps"});
  for (size_t part = 0; part < parts.size(); ++part) {
    const SampleStatistics statistics = statistics_of(times[part]);
    parts[part].microseconds = statistics.median;
    parts[part].deviation = statistics.standard_deviation;
  }
  if (parts[kDraftPart].num_launches == 0) parts.erase(parts.begin() + kDraftPart);
  return parts;
}

Reuse reuse_of(const std::vector<PartTime>& parts, std::optional<size_t> cache_bytes) {
  return {sum_of(parts).bytes, cache_bytes};
}

std::vector<std::string> contradictions(const std::vector<PartTime>& parts, double read_bandwidth,
                                        const Reuse& reuse) {
  std::vector<std::string> found;
  for (const PartTime& part : parts)
    if (std::string line = impossible_share(part.part, share_of(part, read_bandwidth), reuse); !line.empty())
      found.push_back(std::move(line));
  return found;
}

std::string chrome_trace(std::span<const TimedWork> work) {
  Json events = Json::array();
  for (const TimedWork& piece : work)
    events.push_back({{"name", piece.name},
                      {"cat", kPartNames[part_of(piece)]},
                      {"ph", "X"},
                      {"ts", piece.begin},
                      {"dur", piece.end - piece.begin},
                      {"pid", 0},
                      {"tid", part_of(piece)}});
  return Json{{"traceEvents", events}}.dump();
}

Action define_profile(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<ProfileOptions>();
  add_model(command, options->model)->required(false);  // optional, because `profile compare` has no MODEL
  const auto add_count = [&](const char* flag, int& number, const char* what, int least, int most) {
    add_value(command, flag, "N", number, fmt::format("{} [{}]", what, number))
        ->check(CLI::Range(least, most));
  };
  add_count("-p,--prompt-length", options->num_tokens, "new tokens of each sequence in the step", 1, 1 << 20);
  add_count("-d,--depth", options->depth, "tokens of each sequence in the KV cache", 0, 1 << 20);
  add_count("-s,--sequences", options->num_sequences, "number of sequences in the step", 1, 1024);
  add_count("-r,--repetitions", options->num_repetitions, "number of repetitions", 1, 1000);
  add_count("--warmup", options->num_warmups, "untimed steps before these", 0, 1000);
  add_value(command, "--temperature", "T", options->temperature,
            "sampling temperature [0: the likeliest token]")
      ->check(CLI::Range(0.0, 2.0));
  add_value(command, "--trace", "FILE", options->trace,
            "write one step in the format of Chrome's trace viewer");
  command.add_flag("--kernels", options->by_kernel,
                   "a second table by kernel: launches, their median and 99th percentile, bytes, FLOP/s");
  command.add_flag("--json", options->as_json, "one JSON object instead of the table");
  add_settings(command, settings,
               {SettingGroup::kMachine, SettingGroup::kDrafts, SettingGroup::kDevice, SettingGroup::kGpus,
                SettingGroup::kPlaces});
  command.footer(kProfileFooter);
  const Action compare = define_profile_compare(
      *command.add_subcommand("compare", "which parts and kernels of two profiles differ"), settings);
  return [options, compare, &settings, &command] {
    if (const auto given = command.get_subcommands(); !given.empty()) {
      check_nothing_before(command, *given.front());
      return compare();
    }
    if (options->model.empty())
      throw InputError("MODEL is required; 'nibble profile --help' says what is accepted");
    return profile(*options, settings, command_line(command));
  };
}

}  // namespace nibble::cli
