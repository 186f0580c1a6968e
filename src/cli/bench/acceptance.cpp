// nibble bench acceptance: measures the speed of speculative decoding for given acceptance probabilities. The
// steps that verify drafts are real. Acceptance is drawn at random, so synthetic weights suffice.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/bench/bench_flags.h"
#include "cli/measure/backend_sequence.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "core/errors/error.h"
#include "core/numbers/random.h"
#include "core/system/clock.h"
#include "core/text/json.h"
#include "core/text/take_until.h"
#include "model/ops.h"
#include "setup/model/model.h"
#include "setup/plan/experts.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "speculative/speculator.h"

namespace nibble::cli {
namespace {

constexpr const char* kBenchAcceptanceFooter{R"(
Predicts the speed of drafts that are accepted with given probabilities. A PROFILE is a list such as 0.7,0.5,0.3, for the
first three drafts of a step (later ones are wrong), or one number for all. The command times steps of 1 to 16 rows of one
sequence, next to what their bytes predict, and decodes -n tokens with no drafts, with 1, 3 and 5 drafts in each step, and with
the number that --speculate auto chooses. Which drafts are right is drawn at random: the same draws for all of them, others in
each repetition, and the same in each run. So synthetic weights, whose text means nothing, can show when drafts pay.

Examples:
  nibble bench acceptance synthetic:gpt-oss-20b 0.7,0.5,0.3 0.9
  nibble bench acceptance tiny 0.8 -n 128 --json)"};

struct AcceptanceOptions : BenchFlags {
  // One profile per entry, such as "0.7,0.5,0.3": element n is the probability that draft n of a step is
  // right if all before it are right. Drafts without an element are wrong; one number applies to all drafts.
  std::vector<std::string> profiles;
  // Tokens of one run. With 128 tokens, the random draws alone vary the measured gain of the controller's
  // choice (`auto`) by 7 to 8 % (standard deviation); with 512 tokens by 1 to 1.5 % (docs/speculation.md).
  int num_tokens{512};
  int depth{0};  // tokens in the KV cache before the run
};

constexpr int kRowsOfStep[]{1, 2, 3, 4, 6, 8, 16};  // number of tokens in a timed step
constexpr int kStepsOfRows{16};                     // timed steps for each number of tokens, per repetition
constexpr int kFixedDepths[]{1, 3, 5};  // drafts per step in the runs with a fixed number of drafts

struct AcceptanceProfile {
  std::string name;
  // Probability that draft n of a step is accepted. A single value applies to all drafts.
  std::vector<double> chances;
  double chance(size_t place) const {
    return chances.size() == 1 ? chances[0] : place < chances.size() ? chances[place] : 0;
  }
};

AcceptanceProfile read_profile(const std::string& text) {
  AcceptanceProfile profile{.name = text, .chances = {}};
  bool has_more = true;
  for (std::string_view rest = text; has_more;) {
    has_more = rest.find(',') != std::string_view::npos;
    const std::string_view number = take_until(rest, ',');
    double chance{-1};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), chance);
    if (error != std::errc() || end != number.data() + number.size() || !(chance >= 0 && chance <= 1))
      throw InputError("PROFILE '{}': expected numbers from 0 to 1, separated by commas", text);
    profile.chances.push_back(chance);
  }
  return profile;
}

// Returns the token at `position`, which counts from the first timed token.
TokenId token_at(int position) { return tokens_at(position, 1, 256)[0]; }

// Proposes the tokens of token_at() up to a random miss, and wrong tokens after it. A draw depends only on
// the position, so runs with different numbers of drafts use the same draws.
class ForcedDrafter final : public speculative::Drafter {
 public:
  ForcedDrafter(const AcceptanceProfile& profile, uint64_t draw_seed)
      : profile_(profile), draw_seed_(draw_seed) {}
  void push(std::span<const TokenId> tokens) override { position_ += static_cast<int>(tokens.size()); }
  speculative::Proposal propose(int most) override {
    speculative::Proposal proposal;
    bool is_right = true;
    for (int place = 0; place < most; ++place) {
      const auto position = static_cast<uint64_t>(position_ + place);
      is_right = is_right && random_unit(draw_seed_, position) < profile_.chance(static_cast<size_t>(place));
      proposal.tokens.push_back(token_at(position_ + place) + !is_right);
    }
    return proposal;
  }

 private:
  const AcceptanceProfile& profile_;
  uint64_t draw_seed_;
  int position_{0};
};

// A way to choose the number of drafts per step: no drafts, a fixed number, or the controller's choice. All
// runs share the speculator, so the controller keeps what it has learned, as in a server.
struct DraftedWay {
  std::string name;
  std::unique_ptr<speculative::Speculator> speculator{};  // null: no drafts
  std::vector<double> tokens_per_second{}, tokens_per_step{};
};

// Returns the ways to measure. The drafters of the ways read `profile` and `draw_seed` at the start of each
// run, so both arguments must outlive the result.
std::vector<DraftedWay> drafted_ways(const AcceptanceProfile& profile, const uint64_t& draw_seed) {
  const auto make = [&](const speculative::DrafterSources&) {
    return std::make_unique<ForcedDrafter>(profile, draw_seed);
  };
  const auto speculator = [](const speculative::SpeculationOptions& options) {
    return std::make_unique<speculative::Speculator>(options);
  };
  std::vector<DraftedWay> all;
  all.push_back({.name = "off"});
  for (const int depth : kFixedDepths)
    all.push_back({.name = fmt::format("{} drafts", depth),
                   .speculator = speculator({.drafters = {make}, .by_cost = false, .max_drafts = depth})});
  all.push_back({.name = "auto", .speculator = speculator({.drafters = {make}})});
  return all;
}

class DraftedRunner {
 public:
  DraftedRunner(BackendSequence& sequence, const Config& config, const AcceptanceOptions& options)
      : sequence_(sequence), vocab_(config.vocab), options_(options) {}

  void run(DraftedWay& way, bool counts) {
    speculative::Speculator* const speculator = way.speculator.get();
    const std::unique_ptr<speculative::Track> track = speculator ? speculator->start({}, nullptr) : nullptr;
    int num_tokens = 0, num_steps = 0;
    const Stopwatch clock;
    for (; num_tokens < options_.num_tokens; ++num_steps) {
      const Stopwatch step_clock;
      std::vector<speculative::Speculator::Choice> choice{
          {.track = track.get(), .most = speculative::kMaxDrafts}};
      if (speculator) speculator->choose(1, 1, speculative::kMaxDrafts, choice);
      const std::vector<TokenId>& drafts = choice[0].tokens;
      const auto num_drafts = static_cast<int>(drafts.size());
      sequence_.run_checking_step(tokens_at(options_.depth + num_tokens, 1 + num_drafts, vocab_), num_tokens);
      size_t num_right = 0;
      while (num_right < drafts.size() &&
             drafts[num_right] == token_at(num_tokens + static_cast<int>(num_right)))
        ++num_right;
      for (size_t n = 0; speculator && n <= num_right; ++n)
        speculator->push(*track, token_at(num_tokens + static_cast<int>(n)));
      num_tokens += 1 + static_cast<int>(num_right);
      if (speculator)
        speculator->add({.num_sequences = 1,
                         .num_more_rows = num_drafts,
                         .num_drafts = num_drafts,
                         .num_tokens = 1 + static_cast<int>(num_right),
                         .seconds = step_clock.seconds()});
    }
    const double seconds = clock.seconds();
    if (!counts) return;
    way.tokens_per_second.push_back(num_tokens / seconds);
    way.tokens_per_step.push_back(static_cast<double>(num_tokens) / num_steps);
  }

  double step_seconds(int num_rows) {
    const std::vector<TokenId> tokens = tokens_at(options_.depth, num_rows, vocab_);
    std::vector<double> seconds;
    for (int step = 0; step < kStepsOfRows; ++step) {
      const Stopwatch clock;
      sequence_.run_checking_step(tokens, 0);
      seconds.push_back(clock.seconds());
    }
    return statistics_of(seconds).median;
  }

 private:
  BackendSequence& sequence_;
  int vocab_;
  const AcceptanceOptions& options_;
};

double bytes_of_rows(const Config& config, const StorageFormats& formats, int num_rows, int depth) {
  Cost sum;
  for (const OperationCost& row : step_costs(config, formats, num_rows, depth + num_rows)) sum += row.cost;
  return static_cast<double>(sum.bytes_touched());
}

struct MeasuredRows {
  int num_rows;
  double seconds, ratio, ratio_of_bytes;
};
struct ProfileResult {
  std::string name;
  std::vector<DraftedWay> ways;
};

// Returns the speed of `way` divided by the speed of `other` for each repetition, in ascending order.
std::vector<double> speed_ratios(const DraftedWay& way, const DraftedWay& other) {
  std::vector<double> ratios;
  for (size_t n = 0; n < way.tokens_per_second.size(); ++n)
    ratios.push_back(way.tokens_per_second[n] / other.tokens_per_second[n]);
  std::ranges::sort(ratios);
  return ratios;
}
const DraftedWay& best_fixed(const ProfileResult& result) {
  const auto speed = [](const DraftedWay& way) { return statistics_of(way.tokens_per_second).median; };
  // Exclude the last way, `auto`.
  return *std::max_element(result.ways.begin(), result.ways.end() - 1,
                           [&](const DraftedWay& a, const DraftedWay& b) { return speed(a) < speed(b); });
}

std::string acceptance_tables(const std::vector<MeasuredRows>& rows,
                              const std::vector<ProfileResult>& results) {
  std::string text = "| rows of one sequence | ms per step | vs. one row | by bytes | vs. bytes |\n";
  text += "| ---: | ---: | ---: | ---: | ---: |\n";
  for (const MeasuredRows& row : rows)
    text += fmt::format("| {} | {:.3f} | {:.2f} | {:.2f} | {:.2f} |\n", row.num_rows, row.seconds * 1e3,
                        row.ratio, row.ratio_of_bytes, row.ratio / row.ratio_of_bytes);
  text += "\n| acceptance | drafts | tok/s | vs. off | vs. best fixed | min, max | tokens per step |\n";
  text += "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n";
  for (const ProfileResult& result : results)
    for (const DraftedWay& way : result.ways) {
      const std::vector<double> of_best = speed_ratios(way, best_fixed(result));
      const double of_off = statistics_of(speed_ratios(way, result.ways[0])).median;
      text += fmt::format("| {} | {} | {:.1f} | {:.3f} | {:.3f} | {:.3f}, {:.3f} | {:.2f} |\n", result.name,
                          way.name, statistics_of(way.tokens_per_second).median, of_off,
                          statistics_of(of_best).median, of_best.front(), of_best.back(),
                          statistics_of(way.tokens_per_step).mean);
    }
  return text;
}

RunOutput bench_acceptance(const AcceptanceOptions& options, const Settings& settings,
                           const std::string& command_line) {
  std::vector<AcceptanceProfile> profiles;
  for (const std::string& text : options.profiles) profiles.push_back(read_profile(text));
  const std::string began = utc_now();
  const ResolvedSettings setup = resolve(settings);
  const Model model = open_model_for(options.model, setup);
  const int most_tokens = options.num_tokens + 2 * (speculative::kMaxDrafts + 1);
  const BenchTest test{.kind = BenchKind::kDecode, .num_tokens = most_tokens, .depth = options.depth};
  const BackendOptions room = room_for({&test, 1}, model.config, setup);
  const std::unique_ptr<Backend> backend = load(model, setup, room);

  BackendSequence sequence(*backend, room);
  sequence.feed(tokens_at(0, options.depth, model.config.vocab));
  sequence.reserve(most_tokens);
  DraftedRunner runner(sequence, model.config, options);
  const StorageFormats formats = formats_of(model, setup);
  std::vector<std::vector<double>> seconds(std::size(kRowsOfStep));
  std::vector<ProfileResult> results;
  uint64_t draw_seed{0};
  for (const AcceptanceProfile& profile : profiles)
    results.push_back({.name = profile.name, .ways = drafted_ways(profile, draw_seed)});
  for (int n = 0; n < options.num_warmups + options.num_repetitions; ++n) {
    const bool counts = n >= options.num_warmups;
    // Each repetition draws new misses, so the median averages over the draws.
    draw_seed = static_cast<uint64_t>(n);
    for (size_t i = 0; i < std::size(kRowsOfStep); ++i) {
      const double step = runner.step_seconds(kRowsOfStep[i]);
      if (counts) seconds[i].push_back(step);
    }
    for (ProfileResult& result : results)
      for (DraftedWay& way : result.ways) runner.run(way, counts);
  }
  std::vector<MeasuredRows> rows;
  for (size_t i = 0; i < std::size(kRowsOfStep); ++i) {
    const double step = statistics_of(seconds[i]).median;
    rows.push_back({kRowsOfStep[i], step, rows.empty() ? 1 : step / rows[0].seconds,
                    bytes_of_rows(model.config, formats, kRowsOfStep[i], options.depth) /
                        bytes_of_rows(model.config, formats, 1, options.depth)});
  }
  Json record = to_json(record_of_run(began, command_line, *setup.backend, *backend, options.num_warmups));
  record["model"] = model.source.name;
  record["depth"] = options.depth;
  for (const MeasuredRows& cost : rows)
    record["steps"].push_back({{"rows", cost.num_rows},
                               {"seconds", cost.seconds},
                               {"over_one_row", cost.ratio},
                               {"by_bytes", cost.ratio_of_bytes}});
  for (const ProfileResult& result : results)
    for (const DraftedWay& way : result.ways)
      record["runs"].push_back({{"acceptance", result.name},
                                {"drafts", way.name},
                                {"tokens_per_second", way.tokens_per_second},
                                {"tokens_per_step", statistics_of(way.tokens_per_step).mean}});
  return {acceptance_tables(rows, results), record_line(record)};
}

}  // namespace

Action define_bench_acceptance(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<AcceptanceOptions>();
  add_model(command, options->model);
  add_value(command, "PROFILE", "...", options->profiles, "probabilities that each draft of a step is right")
      ->required();
  add_value(command, "-n,--output-tokens", "N", options->num_tokens, "tokens to decode")
      ->check(CLI::Range(1, kMaxBenchTokens))
      ->capture_default_str();
  add_value(command, "-d,--depth", "N", options->depth, "tokens in the KV cache before those that are timed")
      ->check(CLI::Range(0, kMaxBenchTokens))
      ->capture_default_str();
  add_bench_flags(command, settings, *options);
  command.footer(kBenchAcceptanceFooter);
  return [options, &settings, &command] {
    return print_measurement(*options, settings, command, &bench_acceptance);
  };
}

}  // namespace nibble::cli
