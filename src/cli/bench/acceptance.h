// nibble bench acceptance: the speed that speculative decoding would reach if each draft were accepted with
// a given probability. The verification steps are run and timed; which drafts are accepted is drawn at
// random. So synthetic weights, which produce no meaningful text, can show when drafting pays.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/measure/run_record.h"

namespace nibble::cli {

struct AcceptanceOptions {
  std::string model;
  // Each entry is one profile, such as "0.7,0.5,0.3": the probability that draft n of a step is right, given
  // that those before it are. Later drafts have probability 0; a single number applies to every draft.
  std::vector<std::string> profiles;
  // Tokens of one run. Which drafts are right is random: with 128 tokens, this alone changed the ratio of
  // `auto` to the best fixed number of drafts by 6 %; with 512 in each of five repetitions, by 1 %
  // (docs/speculation.md).
  int num_tokens{512};
  int depth{0};  // tokens in the KV cache before the run
  int num_repetitions{5};
};

// Runs the measurement and returns its table and record. Throws InputError.
RunOutput bench_acceptance(const AcceptanceOptions& options, const Settings& settings,
                           const std::string& command_line);

Action define_bench_acceptance(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
