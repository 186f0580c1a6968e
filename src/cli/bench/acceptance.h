// nibble bench acceptance: measures the speed of speculative decoding for given acceptance probabilities. The
// steps that verify drafts are real. Acceptance is drawn at random, so synthetic weights suffice.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/measure/run_record.h"

namespace nibble::cli {

struct AcceptanceOptions {
  std::string model;
  // One profile per entry, such as "0.7,0.5,0.3": element n is the probability that draft n of a step is
  // right if all before it are right. Drafts without an element are wrong; one number applies to all drafts.
  std::vector<std::string> profiles;
  // Tokens of one run. With 128 tokens, the random draws alone vary the measured gain of the controller's
  // choice (`auto`) by 7 to 8 % (standard deviation); with 512 tokens by 1 to 1.5 % (docs/speculation.md).
  int num_tokens{512};
  int depth{0};  // tokens in the KV cache before the run
  int num_repetitions{5}, num_warmups{1};
};

RunOutput bench_acceptance(const AcceptanceOptions& options, const Settings& settings,
                           const std::string& command_line);  // throws InputError

Action define_bench_acceptance(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
