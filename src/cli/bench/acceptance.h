// nibble bench acceptance: the speed of speculative decoding if each draft were accepted with a given
// probability. Verification steps run and are timed; acceptance is drawn at random, so synthetic weights,
// whose text is meaningless, can show when drafts pay.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/measure/run_record.h"

namespace nibble::cli {

struct AcceptanceOptions {
  std::string model;
  // One profile per entry, such as "0.7,0.5,0.3": the probability that draft n of a step is right if all
  // before it are. Later drafts have probability 0; a single number applies to every draft.
  std::vector<std::string> profiles;
  // Tokens of one run. The random acceptance alone changed the ratio of `auto` to the best fixed number of
  // drafts by 6 % with 128 tokens, by 1 % with 512 tokens in each of five repetitions (docs/speculation.md).
  int num_tokens{512};
  int depth{0};  // tokens in the KV cache before the run
  int num_repetitions{5};
};

RunOutput bench_acceptance(const AcceptanceOptions& options, const Settings& settings,
                           const std::string& command_line);  // throws InputError

Action define_bench_acceptance(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
