// nibble diff: finds the first layer and operation in which two backends, formats or builds differ.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/diff/compare.h"
#include "cli/diff/states.h"
#include "cli/measure/speed_tests.h"
#include "cli/options.h"
#include "core/errors/error.h"
#include "setup/model/model.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kDiffFooter{R"(
Runs some tokens through the model and compares what each operation of each layer computes with what the reference backend
computes for the weights as they are stored, or with a file that --save wrote: of another backend, format, build or machine. A
cell is the relative error |a - b| / |b|, as the root mean square over the tokens; "!" marks errors above the tolerance. The line
below the table names the first of them. Errors pass from layer to layer, so the first one counts. Of "project" and "experts"
the term is compared that they add to the residual stream; "experts" is both halves with the sum.

Errors of correct backends come from their formats and grow from layer to layer. In the first layer they are about 0.003 for a KV
cache in BF16, 0.01 for int8 activations, 0.02 for FP8 and 0.1 for MXFP4. A token whose router is close to a tie may get another
expert: "route" then has a large error at this token alone. Choose --tolerance accordingly, or compare two runs with the same
formats. The exit code is 1 if an error exceeds it.

The backend cuda shows the embedding, "attend", "project", "experts" and the logits; errors of "qkv" and "route" appear in the
operation after them. Several GPUs are compared --by-layer: the model is loaded anew up to each layer, and the logits after that
layer are compared. 'nibble verify' checks every operation of a GPU alone.

Examples:
  nibble diff tiny --fp8-layers qkv
  nibble diff openai/gpt-oss-20b --backend cuda --by-layer
  nibble diff tiny --save old.safetensors              # with one build, backend or format
  nibble diff tiny --against old.safetensors           # with another one)"};

constexpr int kMostTokens{512};
constexpr double kDefaultTolerance{0.1};

struct DiffOptions {
  std::string model;
  std::optional<std::string> prompt, against, save;
  int num_tokens{32};
  double tolerance{kDefaultTolerance};
  bool by_layer{false};
};

std::vector<TokenId> tokens_of(const DiffOptions& options, const Model& model, const Places& places) {
  if (!options.prompt) return tokens_at(0, options.num_tokens, model.config.vocab);
  std::vector<TokenId> tokens =
      open_tokenizer(model.source, places).encode(*options.prompt, SpecialTokens::kRecognise);
  if (tokens.empty() || tokens.size() > size_t{kMostTokens})
    throw InputError("-p: {} tokens; expected 1 to {}", tokens.size(), kMostTokens);
  return tokens;
}

// Returns the states by operation. If `by_layer` is set, or if the backend does not trace operations, sets
// `by_layer` and returns the states by layer.
States run_model(const Model& model, const ResolvedSettings& setup, const std::vector<TokenId>& tokens,
                 bool& by_layer) {
  if (!by_layer) {
    const BackendOptions room = backend_options(model.config, setup, {static_cast<int>(tokens.size()), 1});
    if (std::ssize(tokens) > room.max_batch_tokens)
      throw InputError("{} tokens: a step has at most {} (--max-batch-tokens)", tokens.size(),
                       room.max_batch_tokens);
    States states = states_by_operation(*load(model, setup, room), room, tokens);
    if (!states.states.empty()) return states;
    by_layer = true;
  }
  return states_by_layer(model, setup, tokens);
}

// Returns the settings of the reference run: without flags that change results or that other backends need.
ResolvedSettings reference_setup(const Settings& settings) {
  Settings plain;
  plain.backend = "reference";
  plain.threads = settings.threads;
  plain.max_batch_tokens = settings.max_batch_tokens;
  plain.models = settings.models;
  plain.tokenizer = settings.tokenizer;
  return resolve(plain);
}

int diff(const DiffOptions& options, const Settings& settings) {
  const ResolvedSettings setup = resolve(settings);
  const Model model = open_model_for(options.model, setup);
  const std::vector<TokenId> tokens = tokens_of(options, model, setup.places);
  bool by_layer = options.by_layer;
  const States own = run_model(model, setup, tokens, by_layer);
  if (options.save) {
    write_states(*options.save, own);
    if (!options.against) return kDone;
  }
  const States other = options.against ? read_states(*options.against)
                                       : run_model(model, reference_setup(settings), tokens, by_layer);
  const std::vector<StateDifference> differences = compare_states(own, other);
  fmt::print("{}", difference_report(differences, options.tolerance));
  return first_above(differences, options.tolerance) ? kCheckFailed : kDone;
}

}  // namespace

Action define_diff(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<DiffOptions>();
  add_model(command, options->model);
  add_value(command, "-n,--tokens", "N", options->num_tokens,
            "number of random tokens, the same every time [32]; or -p")
      ->check(CLI::Range(1, kMostTokens));
  add_value(command, "-p,--prompt", "TEXT", options->prompt, "a text instead of random tokens")
      ->excludes("--tokens");
  add_value(command, "--against", "FILE", options->against,
            "compare with this file of --save, not with the reference");
  add_value(command, "--save", "FILE", options->save, "write what was computed to a safetensors file");
  add_value(command, "--tolerance", "X", options->tolerance,
            fmt::format("largest relative error that is no difference [{:g}]", kDefaultTolerance))
      ->check(CLI::Range(0.0, 1.0));
  command.add_flag(
      "--by-layer", options->by_layer,
      "compare the logits after each layer: for every backend, but loads the model for each layer");
  add_settings(command, settings,
               {SettingGroup::kMachine, SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kPlaces});
  command.footer(kDiffFooter);
  return [options, &settings] { return diff(*options, settings); };
}

}  // namespace nibble::cli
