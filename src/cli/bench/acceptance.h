// nibble bench --acceptance: what drafts would give if each were right with a given chance. The steps that check them are run and timed;
// which drafts were right is drawn. So synthetic weights, which have no text, show when drafts pay.
#pragma once

#include <string>
#include <vector>

#include "cli/measure/run_record.h"
#include "core/settings.h"

namespace nibble::cli {

struct AcceptanceOptions {
  std::string model;
  // Each is one profile, as "0.7,0.5,0.3": the chance that the draft at a place is right where those before it are. The places behind
  // the last have none; a single number counts for every place.
  std::vector<std::string> profiles;
  // Of a run. Which drafts are right is chance: with 128 tokens that alone moved by 6 % what `auto` has of the best, with these in each of
  // five repetitions by 1 % (docs/speculation.md).
  int num_tokens{512};
  int depth{0};  // in the KV cache before
  int num_repetitions{5};
};

// Throws InputError.
RunOutput bench_acceptance(const AcceptanceOptions& options, const Settings& settings,
                           const std::string& command_line);

}  // namespace nibble::cli
